"""What every test may ask for."""

from pathlib import Path

import pytest

from support.plugins import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """An empty node: a folder for plugins and their config."""
    return Node(tmp_path)
