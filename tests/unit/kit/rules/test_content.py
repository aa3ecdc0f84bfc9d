"""Keys in an answer, and the images they serve."""

from __future__ import annotations

import pytest

from keyferry.kit.rules.content import serves, why_unmatchable


@pytest.mark.parametrize(
    ("key", "never"),
    [
        ("registry.example", False),
        ("registry.example:5000/team", False),
        ("*.registry.example", False),
        ("https://index.docker.io/v1/", False),
        ("HTTPS://registry.example", True),
        ("registry.example/*", True),
        ("registry?.example", True),
        ("registry example", True),
        ("", True),
    ],
)
def test_keys_that_can_never_match_are_known(key: str, *, never: bool) -> None:
    """A key is good if some image could match it."""
    assert bool(why_unmatchable(key)) is never


def test_the_key_of_docker_hub_serves_its_images() -> None:
    """The kubelet's fallback for Docker Hub counts as a match."""
    assert serves("https://index.docker.io/v1/", "docker.io/library/busybox")
    assert not serves("https://index.docker.io/v1/", "quay.io/x/y")
