"""What may lie in the kubelet's root and was not read is not known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.node.settings import Node
from keyferry.workloads.node import find_docker_config
from keyferry.workloads.request import Request
from support.kubelets import Processes

NOBODY = 65534


def missing_config(node: Node, docker_config: str | None) -> list[MissingInput]:
    """What is said to be missing of the node's docker config."""
    return list(find_docker_config(Request(docker_config=docker_config), node, None).missing)


@pytest.mark.parametrize("exists", [True, False])
def test_a_root_that_may_not_be_seen_may_hold_a_docker_config(
    processes: Processes, tmp_path: Path, *, exists: bool
) -> None:
    """Whether it does is known to those alone who may look; 'auto' looks no better, and a file given is all."""
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    path = root / "config.json"
    if exists:
        path.write_text("{}")
    processes.write(17, "kubelet", f"--root-dir={root}")
    node = Node(str(processes))
    assert missing_config(node, None) == (
        [MissingInput(input=LookupInput.DOCKER_CONFIG, name=str(path))] if exists else []
    )
    assert missing_config(node, "auto") == []
    was = os.geteuid()
    os.chmod(root, 0)
    os.seteuid(was or NOBODY)  # root may see everything, so be somebody else for the moment
    try:
        for option in (None, "auto"):
            (unseen,) = missing_config(node, option)
            assert unseen.name == str(path)
            assert "no permission to see whether it exists" in str(unseen)
        assert missing_config(node, "/given.json") == []
    finally:
        os.seteuid(was)
        os.chmod(root, 0o700)
