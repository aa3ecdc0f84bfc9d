"""What tests of the node agent ask for; a module with a node or an agent of another kind has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agent_here import agent_here
from support.agents import Agent
from support.plugins import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one provider that counts its runs."""
    made = Node(tmp_path)
    made.recording()
    return made


@pytest.fixture
def agent(node: Node) -> Iterator[Agent]:
    """An agent of the node."""
    with agent_here(node) as running:
        yield running
