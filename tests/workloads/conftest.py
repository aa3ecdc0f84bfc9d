"""What tests of pods and their objects ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.bobs_cluster import bob
from support.commands import Node
from support.far_node import far

__all__ = ["bob", "far"]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node's config and plugins, in a folder of their own."""
    folder = tmp_path / "node"
    folder.mkdir()
    return Node(folder)


@pytest.fixture
def no_login(tmp_path: Path) -> list[str]:
    """The option for a node's docker config without any login."""
    path = tmp_path / "no-login.json"
    path.write_text('{"auths": {}}')
    return ["--docker-config", str(path)]
