"""Wait for the end of a program, kill it, and collect it so that no zombie is left."""

# The module behind `signal`, which also makes enums of all signals.
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed does not list it
import os
import select
import time
from math import ceil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

# The time to wait for a killed process to end; after that, a later run collects it.
DEATH_SECONDS = 0.3
# poll() takes milliseconds as a C int; longer waits are repeated.
LONGEST_WAIT_SECONDS = 3600.0
# False on macOS before Python 3.13.
CAN_LOOK = hasattr(os, "waitid")
_CAN_WATCH = hasattr(os, "pidfd_open")

left_to_collect: list[int] = []


def await_exit(pid: int, deadline: float) -> int | None:
    """Wait for the program and return its exit status, or None if the deadline passes first."""
    return _await(_poll_exit, pid, deadline)


def await_end(pid: int, deadline: float) -> bool:
    """Wait for the program without collecting it; return False if the deadline passes first. Needs CAN_LOOK."""
    return _await(lambda pid: has_ended(pid) or None, pid, deadline) is not None


def has_ended(pid: int) -> bool:
    """Return whether the program has ended. Needs CAN_LOOK.

    The program is not collected, so that its process id and its process group are not reused. Raises ChildProcessError
    if other code collected it.
    """
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    # A program can make its parent its tracer, which is then notified of its stops as well.
    return found is not None and found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


def _await(look: Callable[[int], T | None], pid: int, deadline: float) -> T | None:
    found = look(pid)
    if found is not None:
        return found
    watch_for_exit(pid, milliseconds(deadline - time.monotonic()))
    # Poll even after watching: a program under a debugger ends well before it can be collected.
    pause = 0.0005
    while (found := look(pid)) is None and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return found


def watch_for_exit(pid: int, most_milliseconds: int) -> bool:
    """Sleep until the program ends or the time is over, if the system supports it; return whether it ended."""
    if not _CAN_WATCH:
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False  # an old kernel, a sandbox that forbids the call, no free descriptor, or no such process
    try:
        watch = select.poll()
        watch.register(pidfd, select.POLLIN)
        return bool(watch.poll(most_milliseconds))
    finally:
        os.close(pidfd)


def milliseconds(seconds: float) -> int:
    """Return a time to wait in poll()'s unit, at least 0."""
    return ceil(min(max(0.0, seconds), LONGEST_WAIT_SECONDS) * 1000)


def _poll_exit(pid: int) -> int | None:
    """Collect the program if it has ended; raise ChildProcessError if other code collected it."""
    collected, status = os.waitpid(pid, os.WNOHANG)
    # A program can make its parent its tracer, which is then notified of its stops as well.
    if not collected or os.WIFSTOPPED(status):
        return None
    return os.waitstatus_to_exitcode(status)


def kill_group(pid: int) -> int | None:
    """Kill the program and its process group, and collect it; return its exit status or None."""
    signal_group(pid)
    try:
        status = await_exit(pid, time.monotonic() + DEATH_SECONDS)
    except ChildProcessError:
        return None
    if status is None:
        left_to_collect.append(pid)
    return status


def signal_group(pid: int) -> None:
    """Kill the program and its process group, without collecting it."""
    try:
        os.killpg(pid, _signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:  # macOS raises this for a group whose members are all dead
        pass


def collect_stragglers() -> None:
    """Collect killed programs that did not end in time, such as a process in a system call."""
    for _ in range(len(left_to_collect)):
        try:
            # Removed first: if two threads collected one process id, the second might get a reused one.
            pid = left_to_collect.pop(0)
        except IndexError:
            return
        try:
            gone = _poll_exit(pid) is not None
        except ChildProcessError:
            gone = True
        if not gone:
            left_to_collect.append(pid)
