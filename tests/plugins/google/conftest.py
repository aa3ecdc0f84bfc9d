"""Google on loopback, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.google_world import World, google_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Google's metadata server and APIs."""
    with google_world(tmp_path) as world:
        yield world
