"""The program of a caller, to be shown to people; nothing is decided by it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import struct

from keyferry.agent.access import Caller
from keyferry.agent.connection import AgentConnection
from keyferry.agent.sockets import peer_of

__all__ = ["NamedConnection", "named_peer_of"]

# Linux has had it since 6.5; Python has no name for it.
_SO_PEERPIDFD = 77
# The kernel cuts the name of a task after so many bytes.
_LONGEST_NAME = 15
_DESCRIPTOR = struct.Struct("i")


class NamedConnection(AgentConnection):
    """A connection whose caller has the name of its program."""

    def identify(self, transport: asyncio.BaseTransport) -> Caller:
        """Return who is calling, by the kernel's word; raise OSError if it cannot be told."""
        return named_peer_of(transport.get_extra_info("socket"))


def named_peer_of(connected: socket.socket) -> Caller:
    """Return who is at the other end of a connection, with the name of its program."""
    caller = peer_of(connected)
    return Caller(
        uid=caller.uid, gids=caller.gids, pid=caller.pid, program=_program_of(connected, caller.pid)
    )


def _program_of(connected: socket.socket, pid: int) -> str:
    """Return the program of the process that connected; empty if it cannot be told."""
    if pid <= 0:
        return ""  # it is in another PID namespace
    try:
        descriptor = _DESCRIPTOR.unpack(
            connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, _DESCRIPTOR.size)
        )[0]
    except OSError as error:
        # A kernel without it: the process may have ended, and another one may have its number.
        return _read_name(pid) if error.errno == errno.ENOPROTOOPT else ""
    try:
        name = _read_name(pid)
        # The number was that of the process for as long as the process was there.
        return name if _is_there(descriptor) else ""
    finally:
        os.close(descriptor)


def _is_there(descriptor: int) -> bool:
    try:
        signal.pidfd_send_signal(descriptor, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read_name(pid: int) -> str:
    """Return the path of a program, and the name of its task if it is another, as that of a script is."""
    try:
        # Not a stream, which takes twice as long.
        opened = os.open(f"/proc/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            task = os.read(opened, 64).rstrip(b"\n")
        finally:
            os.close(opened)
    except OSError:
        return ""
    try:
        path = os.readlink(f"/proc/{pid}/exe".encode())
    except OSError:
        return _text(task)  # only root and the process' own user may read it
    name = os.path.basename(path)[:_LONGEST_NAME]
    return _text(path) if name == task else f"{_text(path)} ({_text(task)})"


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
