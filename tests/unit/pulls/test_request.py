"""What is asked of a pull: the pull policy and its default."""

from __future__ import annotations

import pytest

from keyferry.images.reference import parse_image
from keyferry.pulls.request import choose_pull_policy

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("reg.io:5000/team/app", "Always"),
        (f"reg.io/app:latest@{DIGEST}", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("reg.io/app:Latest", "IfNotPresent"),
        (f"reg.io/app@{DIGEST}", "IfNotPresent"),
    ],
)
def test_the_default_goes_by_the_tag(image: str, expected: str) -> None:
    """Only a name that means "latest" is pulled always; a digest alone is not that."""
    assert choose_pull_policy("", parse_image(image)) == expected
    assert choose_pull_policy("", parse_image(image)) == expected


def test_a_name_that_does_not_parse_has_no_tag_that_moves() -> None:
    """Its pull fails with either policy."""
    assert choose_pull_policy("", None) == "IfNotPresent"


def test_what_is_given_counts_and_must_be_known() -> None:
    """Whatever the tag; in Kubernetes' spelling."""
    assert choose_pull_policy("Never", parse_image("busybox")) == "Never"
    with pytest.raises(ValueError, match=r"'always', expected one of Always, IfNotPresent, Never"):
        choose_pull_policy("always", parse_image("busybox"))
