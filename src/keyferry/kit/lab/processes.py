"""What a plugin starts: found in /proc, by the session it was given and by a mark in its environment."""

import os
import signal
import sys
import time
from collections.abc import Iterator

from keyferry._core.values import Value

__all__ = ["MARK", "Process", "can_look", "command_lines", "end_all", "find_left_behind"]

# A variable that every run has with a value of its own: a child that leaves the session still carries it.
MARK = "KEYFERRY_KIT_RUN"
_PROC = "/proc"
# A child that is about to end by itself, as the last of a pipeline may be, is given this long.
_PARTING_SECONDS = 0.5
_PASSES = 20
# Where the time of its start stands, after the name of a process.
_BEGAN = 19


class Process(Value):
    """A process by its id and its name."""

    pid: int
    name: str


def can_look() -> bool:
    """Tell whether this system lets us see what a program has started."""
    return sys.platform == "linux" and os.path.exists(f"{_PROC}/self/stat")


def find_left_behind(leader: int, mark: str) -> tuple[Process, ...]:
    """Every process of a run that lives on after its leader ended, once those on their way out are gone."""
    deadline = time.monotonic() + _PARTING_SECONDS
    while found := tuple(_members(leader, mark)):
        if time.monotonic() >= deadline:
            return found
        time.sleep(0.01)
    return ()


def end_all(leader: int, mark: str) -> None:
    """Kill every process of a run; in several passes, since one may start another meanwhile."""
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
    """The command lines of a program and of everything below it, as anyone on the machine can read them."""
    waiting = [leader]
    while waiting:
        pid = waiting.pop()
        line = _read(pid, "cmdline")
        if line:
            yield line
        waiting += [int(child) for child in _read(pid, f"task/{pid}/children").split()]


def _members(leader: int, mark: str) -> Iterator[Process]:
    """The living processes of the leader's session or with its mark, the leader itself left out."""
    wanted = f"{MARK}={mark}".encode()
    began = _began(_stat(leader)[1])
    for name in os.listdir(_PROC):
        if not name.isdigit() or int(name) in (leader, os.getpid()):
            continue
        pid = int(name)
        shown, fields = _stat(pid)
        # What was there before the run is not of the run, and need not be looked into.
        if not fields or fields[0] in (b"Z", b"X") or _began(fields) < began:
            continue
        if int(fields[3]) == leader or wanted in _read(pid, "environ").split(b"\0"):
            yield Process(pid, shown)


def _stat(pid: int) -> tuple[str, list[bytes]]:
    """The name of a process, and what follows it: state, parent, process group, session and so on."""
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
        return b""  # gone meanwhile, or somebody else's
