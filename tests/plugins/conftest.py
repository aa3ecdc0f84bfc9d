"""What tests of Google's parts ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.google_world import World, google_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Google, on loopback, and this process led there."""
    with google_world(tmp_path) as world:
        monkeypatch.setenv("HTTPS_PROXY", world.proxy.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(world.bundle))
        yield world
