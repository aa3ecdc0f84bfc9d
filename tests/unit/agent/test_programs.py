"""The program at the other end of a connection, as it is shown to people."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry.agent.sockets import named_peer_of
from support.plugins import write_executable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent needs Linux")
CONNECT = "import socket, sys; made = socket.socket(socket.AF_UNIX); made.connect(sys.argv[1])"


@pytest.fixture
def listener(tmp_path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(os.path.relpath(tmp_path / "socket"))
    made.listen()
    return made


def test_a_program_is_named_by_its_file(listener: socket.socket) -> None:
    with listener, socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.getsockname())
        with listener.accept()[0] as accepted:
            caller = named_peer_of(accepted)
    assert (caller.uid, caller.pid) == (os.geteuid(), os.getpid())
    assert caller.program.startswith(os.readlink("/proc/self/exe"))


def test_a_script_is_named_too(listener: socket.socket, tmp_path: Path) -> None:
    script = write_executable(tmp_path / "a-client", f"#!{sys.executable} -I\n{CONNECT}; sys.stdin.read()\n")
    with listener:
        command = [str(script), os.path.abspath(listener.getsockname())]
        client = subprocess.Popen(command, stdin=subprocess.PIPE)
        with listener.accept()[0] as accepted:
            assert named_peer_of(accepted).program.endswith(" (a-client)")
            client.communicate()
            # Another process may have its number by now.
            assert named_peer_of(accepted).program == ""
