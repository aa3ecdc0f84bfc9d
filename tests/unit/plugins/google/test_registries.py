"""Which registries are Google's."""

from __future__ import annotations

import pytest

from keyferry_plugins.google.pull import is_google_host


@pytest.mark.parametrize(
    "host",
    [
        "gcr.io",
        "us.gcr.io",
        "marketplace.gcr.io",
        "europe-west1-docker.pkg.dev",
        "docker.us-east1.rep.pkg.dev",
    ],
)
def test_googles_hosts_are_known(host: str) -> None:
    """All families of registries."""
    assert is_google_host(host)
    assert is_google_host(host.upper())


@pytest.mark.parametrize(
    "host",
    [
        "",
        "io",
        "pkg.dev",
        ".gcr.io",
        "*.gcr.io",
        "a.b.pkg.dev",
        "evilgcr.io",
        "gcr.io.",
        "gcr\u3002io",
        "x\n.gcr.io",
    ],
)
def test_others_are_not(host: str) -> None:
    """Label by label; a star in an image's name is no label."""
    assert not is_google_host(host)
