"""A node, looked at once."""

from __future__ import annotations

from keyferry.images.node.settings import Node
from support.kubelets import Processes


def test_a_node_is_looked_at_once(processes: Processes) -> None:
    """What was seen first stays, for the length of a command."""
    node = Node(str(processes))
    assert node.kubelet is None
    processes.write(17, "kubelet")
    assert node.kubelet is None
    assert Node(str(processes)).kubelet is not None
