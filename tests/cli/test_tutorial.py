"""Every command of docs/tutorial.md is run, in order, in one shell; its outputs are those of the page."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

import pytest

from support.page_commands import check_commands

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
PORT = "5055"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the page is for a POSIX shell")


def free_port() -> int:
    """A port as long as the page's, so that columns are as wide."""
    for port in range(5056, 9999):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port of four digits is free")


def test_the_tutorial_works_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    port = str(free_port())
    # On a busy machine, the registry needs longer to start than the second that the page waits.
    connect = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}))\" 2>&-"
    replaced = {PORT: port, "\nsleep 1\n": f"\nuntil {connect}; do sleep 0.2; done\n"}
    check_commands(PAGE, tmp_path, after="Then make a folder", replaced=replaced)
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "home"])
