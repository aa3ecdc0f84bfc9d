"""Every command of docs/tutorial.md is run, in order, in one shell; its outputs are those of the page."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from support.page_commands import check_commands

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
PORT = "5055"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the page is for a POSIX shell")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_the_tutorial_works_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    port = str(free_port())
    page = PAGE.read_text("utf-8").replace(PORT, port)
    # On a busy machine, the registry needs longer to start than the second that the page waits.
    connect = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}))\" 2>&-"
    page = page.replace("\nsleep 1\n", f"\nuntil {connect}; do sleep 0.2; done; sleep 1\n", 1)
    check_commands(page.partition("Then make a folder")[2], tmp_path)
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "home"])
