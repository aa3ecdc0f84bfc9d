"""A lookup runs the plugin behind a shim, whoever installed the shim and when."""

from __future__ import annotations

import sys

import pytest

from keyferry.bridge.kubelet_install import python_shim
from support.plugins import IMAGE, Node, write_executable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet's shim is for Linux")


def put_shim(node: Node) -> None:
    """Put a shim in front of the plugin."""
    path = node.bin_dir / "plugin"
    (node.bin_dir / "plugin.real").hardlink_to(path)
    (node.bin_dir / "plugin.agent").symlink_to(node.root / "none.sock")
    write_executable(path, python_shim())


@pytest.mark.parametrize("is_loaded_before", [False, True])
def test_a_lookup_does_not_execute_the_shim(node: Node, is_loaded_before: bool) -> None:
    """An agent that executed the shim would ask itself."""
    node.recording()
    providers = node.load() if is_loaded_before else None
    put_shim(node)
    # A shim that is executed fails, and with it the lookup.
    write_executable(node.bin_dir / "plugin", python_shim().replace(b"import sys", b"raise SystemExit(9)"))
    answer = (providers or node.load()).lookup(IMAGE)
    assert [credential.username for credential in answer.credentials] == ["user"]
    assert len(node.runs()) == 1
