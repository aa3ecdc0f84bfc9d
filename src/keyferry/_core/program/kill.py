"""Look for the end of a program, kill it with what it started, and collect it so that no zombie is left."""

from __future__ import annotations

import os
import signal
import subprocess

# The time to wait for a killed process to end; after that, a later run collects it.
DEATH_SECONDS = 0.3
# False on Windows, and on macOS before Python 3.13.
CAN_LOOK = hasattr(os, "waitid")

left_to_collect: list[int] = []


def has_ended(pid: int) -> bool:
    """Return whether the program has ended. Needs CAN_LOOK.

    The program is not collected, so that its process id and its process group are not reused. Raises ChildProcessError
    if other code collected it.
    """
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    # A program can make its parent its tracer, which is then notified of its stops as well.
    return found is not None and found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


def poll_exit(pid: int) -> int | None:
    """Collect the program if it has ended; raise ChildProcessError if other code collected it."""
    collected, status = os.waitpid(pid, os.WNOHANG)
    # A program can make its parent its tracer, which is then notified of its stops as well.
    if not collected or os.WIFSTOPPED(status):
        return None
    return os.waitstatus_to_exitcode(status)


def kill_group(pid: int) -> None:
    """Kill the program and its process group, on Windows its descendants, without collecting it."""
    if not hasattr(os, "killpg"):
        killer = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
        subprocess.run([killer, "/T", "/F", "/PID", str(pid)], capture_output=True, check=False)
        return
    try:
        os.killpg(pid, signal.SIGKILL)
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
            gone = poll_exit(pid) is not None
        except ChildProcessError:
            gone = True
        if not gone:
            left_to_collect.append(pid)
