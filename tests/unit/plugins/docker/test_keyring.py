"""The logins that the plugin answers with, against those that the kubelet then finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.images.keyring import Keyring, Source, SourceKind
from keyferry_plugins.docker.config import Login
from keyferry_plugins.docker.keyring import choose_logins
from support.registry_keys import IMAGE, KEY


@given(st.lists(KEY, max_size=4), IMAGE)
def test_what_is_answered_is_what_the_kubelet_then_finds(keys: list[str], image: str) -> None:
    """A look-up in the plugin's answer gives the logins that one in the file itself would give."""
    entries = [(key, Login(f"user{at}", "word")) for at, key in enumerate(keys)]
    in_file, in_answer = Keyring(), Keyring()
    in_file.add(
        Source(SourceKind.PROVIDER, ""), ((key, login.username, "word", "") for key, login in entries)
    )
    kept = choose_logins(entries, image, "Image")
    in_answer.add(
        Source(SourceKind.PROVIDER, ""), ((str(place), login.username, "word", "") for place, login in kept)
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
        ("reg.io", Login("host", "w")),
        ("reg.io/team", Login("team", "w")),
        ("reg.io/other", Login("other", "w")),
        ("far.io", Login("far", "w")),
    ]
    kept = choose_logins(entries, "reg.io/team/app", kind)
    assert [login.username for _, login in kept] == names
