"""The end of a program: wait for it, bring it about, and leave no zombie behind."""

import os
import select
import signal
import time
from math import ceil

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

# How long to wait for a killed process to be gone before leaving it to a later run to collect.
DEATH_SECONDS = 0.3
# poll() takes its milliseconds as a C int; who waits longer asks again.
LONGEST_WAIT_SECONDS = 3600.0
# Not on macOS before Python 3.13.
CAN_LOOK = hasattr(os, "waitid")

left_to_collect: list[int] = []


def await_exit(pid: int, deadline: float) -> int | None:
    """The exit status once the program ends, or None when the deadline comes first."""
    return _await(_poll_exit, pid, deadline)


def await_end(pid: int, deadline: float) -> bool:
    """Wait for the program's end without collecting it, where CAN_LOOK; False when the deadline comes first."""
    return _await(lambda pid: has_ended(pid) or None, pid, deadline) is not None


def has_ended(pid: int) -> bool:
    """Tell whether the program has ended, where CAN_LOOK.

    It is not collected, so that its process id, and the group of that number, stay its own. ChildProcessError if
    someone else collected it.
    """
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    # A program can make its parent its tracer, which is then told of its stops as well.
    return found is not None and found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


def _await(look: "Callable[[int], T | None]", pid: int, deadline: float) -> "T | None":
    found = look(pid)
    if found is not None:
        return found
    watch_for_exit(pid, deadline)
    # Also after watching: a program under a debugger has ended well before it can be collected.
    pause = 0.0005
    while (found := look(pid)) is None and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return found


def watch_for_exit(pid: int, deadline: float) -> bool:
    """Sleep until the program ends or the deadline comes, if this system lets us watch it; True if it has ended."""
    if not hasattr(os, "pidfd_open"):
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False  # an old kernel, a sandbox that refuses the call, no descriptor left, or gone already
    try:
        watch = select.poll()
        watch.register(pidfd, select.POLLIN)
        return bool(watch.poll(milliseconds(deadline - time.monotonic())))
    finally:
        os.close(pidfd)


def milliseconds(seconds: float) -> int:
    """A time to wait as poll() takes it; 0 for none left."""
    return ceil(min(max(0.0, seconds), LONGEST_WAIT_SECONDS) * 1000)


def _poll_exit(pid: int) -> int | None:
    """Collect the program if it has ended; ChildProcessError if someone else collected it."""
    collected, status = os.waitpid(pid, os.WNOHANG)
    # A program can make its parent its tracer, which is then told of its stops as well.
    if not collected or os.WIFSTOPPED(status):
        return None
    return os.waitstatus_to_exitcode(status)


def kill_group(pid: int) -> int | None:
    """Kill the program and all its group, and collect it."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:  # macOS says this of a group whose members are all dead
        pass
    try:
        status = await_exit(pid, time.monotonic() + DEATH_SECONDS)
    except ChildProcessError:
        return None
    if status is None:
        left_to_collect.append(pid)
    return status


def collect_stragglers() -> None:
    """Collect what did not die at once when it was killed, such as a process in a system call."""
    for _ in range(len(left_to_collect)):
        try:
            # Taken out first: no two threads may collect one process id, which may be another's by then.
            pid = left_to_collect.pop(0)
        except IndexError:
            return
        try:
            gone = _poll_exit(pid) is not None
        except ChildProcessError:
            gone = True
        if not gone:
            left_to_collect.append(pid)
