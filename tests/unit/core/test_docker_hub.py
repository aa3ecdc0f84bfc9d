"""Docker Hub has many names, and each is used for one thing."""

from __future__ import annotations

import pytest

from keyferry._core.docker_hub import (
    ALIASES,
    HUB,
    LOGIN_HOST,
    LOGIN_URL,
    REGISTRY_HOST,
    is_default_registry,
    is_hub_host,
)


@pytest.mark.parametrize(
    ("image", "is_default"),
    [
        ("busybox", True),
        ("docker.io/x", True),
        ("index.docker.io/x", True),
        ("team/app", True),
        ("localhost/x", True),
        ("reg.io/x", False),
        ("localhost:5000/x", False),
        ("/x", False),
        ("", False),
    ],
)
def test_the_first_component_tells_the_default_registry(image: str, is_default: bool) -> None:
    """A dot or a colon makes a host of it, as in Kubernetes."""
    assert is_default_registry(image) is is_default


@pytest.mark.parametrize("host", [HUB, LOGIN_HOST, REGISTRY_HOST])
def test_names_of_docker_hub_count_as_one(host: str) -> None:
    assert is_hub_host(host)


@pytest.mark.parametrize("host", ["hub.docker.com", "reg.io", "docker.io.example", ""])
def test_other_hosts_are_not_docker_hub(host: str) -> None:
    """Nor is its web site."""
    assert not is_hub_host(host)


def test_an_alias_is_never_the_name_in_images() -> None:
    assert HUB not in ALIASES
    assert {LOGIN_HOST, REGISTRY_HOST} < set(ALIASES)
    assert LOGIN_URL == "https://index.docker.io/v1/"
