"""Registry mirrors: how they are written, and which one applies."""

import pytest

from keyferry_plugins.azure.mirrors import Mirrored, apply_mirror, parse_mirrors


@pytest.mark.parametrize(
    ("text", "mirrors", "refused"),
    [
        ("", {}, ()),
        ("aaa:bbb", {"aaa": "bbb"}, ()),
        ("aaa:bbb,ccc:ddd", {"aaa": "bbb", "ccc": "ddd"}, ()),
        ("aaa: bbb, ccc:ddd", {"aaa": "bbb", "ccc": "ddd"}, ()),
        ("aaa,b:c:d,:e,f:,g:h", {"g": "h"}, ("aaa", "b:c:d", ":e", "f:")),
    ],
)
def test_pairs_are_read_and_others_passed_over(
    text: str, mirrors: dict[str, str], refused: tuple[str, ...]
) -> None:
    """Blanks do not count."""
    assert parse_mirrors(text) == (mirrors, refused)


def test_the_source_is_replaced_by_the_target() -> None:
    """Once, at the beginning."""
    found = apply_mirror({"mcr.microsoft.com": "abc.azurecr.io"}, "mcr.microsoft.com/bar/mcr.microsoft.com")
    assert found == Mirrored("abc.azurecr.io/bar/mcr.microsoft.com", "mcr.microsoft.com")


MIRRORS = {"a.io": "x.azurecr.io", "a.io/team": "y.azurecr.io/team", "a.io/te": "z.azurecr.io"}


@pytest.mark.parametrize(
    ("image", "ours", "theirs"),
    [
        ("a.io/other", "x.azurecr.io/other", "x.azurecr.io/other"),
        ("a.io/team/app", "y.azurecr.io/team/app", "x.azurecr.io/team/app"),
        ("a.io/team", "y.azurecr.io/team", "x.azurecr.io/team"),
        ("a.io/teams/app", "x.azurecr.io/teams/app", "x.azurecr.io/teams/app"),
        ("a.io.evil.example/app", "a.io.evil.example/app", "x.azurecr.io.evil.example/app"),
        ("b.io/app", "b.io/app", "b.io/app"),
    ],
)
def test_the_longest_source_wins_at_a_boundary(image: str, ours: str, theirs: str) -> None:
    """Whatever the order; upstream takes any beginning of the text, and here the first."""
    assert apply_mirror(MIRRORS, image).image == ours
    assert apply_mirror(dict(reversed(MIRRORS.items())), image).image == ours
    assert apply_mirror(MIRRORS, image, compat=True).image == theirs
