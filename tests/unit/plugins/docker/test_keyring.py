"""The plugin's matcher and the logins it answers with, against the kubelet's rules in keyferry's look-ups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.errors import MatchError
from keyferry.images.keyring import Keyring, Source, SourceKind
from keyferry.images.match import matches as kubelet_covers
from keyferry.images.match import normalise_key
from keyferry_plugins.docker.config import Login
from keyferry_plugins.docker.keyring import choose_logins, matches, normalise, parse_host_path
from support.registry_keys import IMAGE, KEY

WILD = st.text(st.sampled_from("ab.*:/@#?[]%2\r\n \x7f\\é{"), max_size=12)


def by_kubelet(key: str, image: str) -> bool:
    """Whether the kubelet, keeping a login under *key*, would offer it for *image*."""
    try:
        return kubelet_covers(normalise_key(key), image)
    except MatchError:
        return False


def by_plugin(key: str, image: str) -> bool:
    """Whether the plugin answers with a login kept under *key* for *image*."""
    place, asked = normalise(key), parse_host_path(image)
    return place is not None and asked is not None and matches(place, asked)


@given(KEY, IMAGE)
def test_ordinary_keys_cover_what_the_kubelet_says(key: str, image: str) -> None:
    """Schemes, globs, ports, API versions, user info, queries: the plugin and the kubelet agree."""
    assert by_plugin(key, image) is by_kubelet(key, image)


@given(WILD, WILD)
def test_no_key_at_all_covers_more_than_the_kubelet_says(key: str, image: str) -> None:
    """Whatever a key looks like, the plugin offers no login that the kubelet would not."""
    assert not by_plugin(key, image) or by_kubelet(key, image)


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        ("https://index.docker.io/v1/", "index.docker.io"),
        ("http://reg.io/v2/team", "reg.io/team"),
        ("reg.io/", "reg.io"),
        ("reg.io:5000/v2/", "reg.io:5000"),
        ("me:pw@reg.io", "reg.io"),
        ("[::1]:5000", "[::1]:5000"),
        ("reg.io/v1", "reg.io/v1"),
    ],
)
def test_keys_are_written_in_the_kubelets_form(key: str, kept: str) -> None:
    """What the kubelet would make of a key is what is answered."""
    assert str(normalise(key)) == kept == normalise_key(key)


@pytest.mark.parametrize(
    "key", ["", "/", "reg.io:http", "reg .io", "reg.io\n", "[::1]", "re%67.io", "reg.io/%zz"]
)
def test_keys_that_name_no_place_are_given_up(key: str) -> None:
    """A key without a usable host is not answered under."""
    assert normalise(key) is None


@given(st.lists(KEY, max_size=4), IMAGE)
def test_what_is_answered_is_what_the_kubelet_then_finds(keys: list[str], image: str) -> None:
    """A look-up in the plugin's answer gives the logins that one in the file itself would give."""
    entries = [(key, Login(username=f"user{at}", password="word")) for at, key in enumerate(keys)]
    in_file, in_answer = Keyring(), Keyring()
    in_file.add(
        Source(kind=SourceKind.PROVIDER, name=""),
        ((key, login.username, "word", "") for key, login in entries),
    )
    kept = choose_logins(entries, image, "Image")
    in_answer.add(
        Source(kind=SourceKind.PROVIDER, name=""),
        ((str(place), login.username, "word", "") for place, login in kept),
    )
    names = sorted(found.username for found in in_file.lookup(image))
    assert sorted(found.username for found in in_answer.lookup(image)) == names
    assert len(kept) == len(names)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("Image", ["host", "team"]),
        ("Registry", ["host", "team", "other"]),
        ("Global", ["host", "team", "other", "far"]),
    ],
)
def test_a_wider_cache_key_has_the_logins_of_all_it_serves(kind: str, names: list[str]) -> None:
    """An answer kept for a registry serves its other images too, so their logins are in it."""
    entries = [
        ("reg.io", Login(username="host", password="w")),
        ("reg.io/team", Login(username="team", password="w")),
        ("reg.io/other", Login(username="other", password="w")),
        ("far.io", Login(username="far", password="w")),
    ]
    kept = choose_logins(entries, "reg.io/team/app", kind)
    assert [login.username for _, login in kept] == names
