"""The processes that a plugin starts, found in /proc by their session and by a mark in their environment."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

from keyferry._core.values import Value

__all__ = ["MARK", "Process", "can_look", "command_lines", "end_all", "find_left_behind"]

# A variable with a different value in every run, which a child that leaves the session still has.
MARK = "KEYFERRY_KIT_RUN"
_PROC = "/proc"
# The time in which a child may exit by itself, such as the last process of a pipeline.
_PARTING_SECONDS = 0.5
_PASSES = 20
# The index of the start time in the fields after a process's name.
_BEGAN = 19


class Process(Value):
    """A process by its id and its name."""

    pid: int
    name: str


def can_look() -> bool:
    """Return whether this system shows the processes that a program has started."""
    return sys.platform == "linux" and os.path.exists(f"{_PROC}/self/stat")


def find_left_behind(leader: int, mark: str) -> tuple[Process, ...]:
    """Return the processes of a run that are still alive half a second after their leader ended."""
    deadline = time.monotonic() + _PARTING_SECONDS
    while found := tuple(_members(leader, mark)):
        if time.monotonic() >= deadline:
            return found
        time.sleep(0.01)
    return ()


def end_all(leader: int, mark: str) -> None:
    """Kill every process of a run, in several passes, because one may start another meanwhile."""
    for _ in range(_PASSES):
        try:
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        members = list(_members(leader, mark)) if can_look() else []
        for member in members:
            _end(member.pid)
        if not members:
            return
        time.sleep(0.01)


def command_lines(leader: int) -> Iterator[bytes]:
    """Yield the command lines of a program and its descendants, which every user of the machine can read."""
    waiting = [leader]
    while waiting:
        pid = waiting.pop()
        line = _read(pid, "cmdline")
        if line:
            yield line
        waiting += [int(child) for child in _read(pid, f"task/{pid}/children").split()]


def _members(leader: int, mark: str) -> Iterator[Process]:
    """Yield the living processes of the leader's session or with its mark, without the leader."""
    wanted = f"{MARK}={mark}".encode()
    began = _began(_stat(leader)[1])
    for name in os.listdir(_PROC):
        if not name.isdigit() or int(name) in (leader, os.getpid()):
            continue
        pid = int(name)
        shown, fields = _stat(pid)
        # A process that is older than the run does not belong to it.
        if not fields or fields[0] in (b"Z", b"X") or _began(fields) < began:
            continue
        if int(fields[3]) == leader or wanted in _read(pid, "environ").split(b"\0"):
            yield Process(pid=pid, name=shown)


def _stat(pid: int) -> tuple[str, list[bytes]]:
    """Return the name of a process and the fields after it: state, parent, process group, session and so on."""
    head, _, rest = _read(pid, "stat").rpartition(b")")
    return head.partition(b"(")[2].decode("utf-8", "replace"), rest.split()


def _began(fields: list[bytes]) -> int:
    return int(fields[_BEGAN]) if len(fields) > _BEGAN else 0


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _read(pid: int, what: str) -> bytes:
    try:
        with open(f"{_PROC}/{pid}/{what}", "rb") as stream:
            return stream.read(1 << 16)
    except OSError:
        return b""  # the process has ended or belongs to another user
