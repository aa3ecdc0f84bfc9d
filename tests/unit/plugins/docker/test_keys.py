"""The plugin's own small matcher against the kubelet's rules as keyferry's look-ups have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.errors import MatchError
from keyferry.images.match.rules import covers as kubelet_covers
from keyferry.images.match.url import normalise_key
from keyferry_plugins.docker.keys import covers, normalise, parse_host_path
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
    return place is not None and asked is not None and covers(place, asked)


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
