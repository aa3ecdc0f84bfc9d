"""The node that the tests of ``keyferry doctor`` look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.bridge.kubelet_install import python_shim
from support.doctor import DoctorNode
from support.plugins import write_executable


@pytest.fixture
def machine(tmp_path: Path) -> DoctorNode:
    """A node on which all is well."""
    made = DoctorNode(tmp_path)
    made.node.add("own", ["reg.io"]).add("cloud", ["*.dkr.ecr.*.amazonaws.com"])
    made.node.config.chmod(0o644)
    made.node.bin_dir.chmod(0o755)
    return made


@pytest.fixture
def shimmed(tmp_path: Path) -> DoctorNode:
    """A machine with a shim in front of its only plugin."""
    made = DoctorNode(tmp_path)
    made.node.add("own", ["reg.invalid"])
    path = made.node.bin_dir / "own"
    (made.node.bin_dir / "own.real").hardlink_to(path)
    (made.node.bin_dir / "own.agent").symlink_to(tmp_path / "run" / "agent.sock")
    write_executable(path, python_shim())
    return made
