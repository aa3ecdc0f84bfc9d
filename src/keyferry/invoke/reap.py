"""The end of a program: wait for it, bring it about, and leave no zombie behind."""

import os
import select
import signal
import time
from math import ceil

# How long to wait for a killed process to be gone before leaving it to a later run to collect.
DEATH_SECONDS = 0.3
# poll() takes its milliseconds as a C int; who waits longer asks again.
_LONGEST_POLL_SECONDS = 3600.0

left_to_collect: list[int] = []


def await_exit(pid: int, deadline: float) -> int | None:
    """The exit status once the program ends, or None when the deadline comes first."""
    status = _poll_exit(pid)
    if status is not None:
        return status
    watch_for_exit(pid, deadline)
    # Also after watching: a program under a debugger has ended well before it can be collected.
    return _await_exit_by_polling(pid, deadline)


def watch_for_exit(pid: int, deadline: float) -> None:
    """Sleep until the program ends or the deadline comes, if this system lets us watch it."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return  # an old kernel, a sandbox that refuses the call, no descriptor left, or gone already
    try:
        watch = select.poll()
        watch.register(pidfd, select.POLLIN)
        watch.poll(milliseconds_until(deadline))
    finally:
        os.close(pidfd)


def milliseconds_until(deadline: float) -> int:
    """How long to sleep, as poll() takes it; 0 once the deadline has come."""
    return ceil(min(max(0.0, deadline - time.monotonic()), _LONGEST_POLL_SECONDS) * 1000)


def _await_exit_by_polling(pid: int, deadline: float) -> int | None:
    pause = 0.0005
    while (status := _poll_exit(pid)) is None and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return status


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
