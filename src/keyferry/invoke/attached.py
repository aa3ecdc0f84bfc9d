"""Run a program on the caller's own streams, and collect only what it prints on standard output.

So client-go runs a plugin: its standard error goes straight through, and its
standard input is the terminal if it may ask questions, and nothing otherwise.
"""

import os
import signal
import time
from collections.abc import Mapping

from keyferry._core.program.child import USUAL_WAY, Way
from keyferry._core.program.pipes import EMPTY, LAST_STANDARD_FD, PIPE
from keyferry._core.program.pump import Limits
from keyferry._core.program.reap import (
    DEATH_SECONDS,
    await_exit,
    collect_stragglers,
    kill_group,
    left_to_collect,
)
from keyferry._core.program.spawn import new_child, spawn
from keyferry.invoke.process import ProcessOutcome


def run_attached(
    argv: tuple[str, ...],
    *,
    program: str | int,
    environ: Mapping[bytes, bytes],
    limits: Limits = Limits(),
    stdin_fd: int | None = None,
    stderr_fd: int = LAST_STANDARD_FD,
    way: Way = USUAL_WAY,
) -> ProcessOutcome:
    """Run *program*, a path or on Linux an open file; raises OSError or ValueError if it does not start.

    Without *stdin_fd* its input is empty and it has a session of its own. With it the program stays in
    this one, or it could not read from the terminal.
    """
    started = time.monotonic()
    collect_stragglers()
    deadline = started + limits.timeout_seconds
    child = new_child(kill_group if stdin_fd is None else _kill_one, way=way)
    # A program that is an open file stays open: of a script the kernel gives its interpreter this name to open.
    path, kept = (program, ()) if isinstance(program, str) else (f"/proc/self/fd/{program}", (program,))
    try:
        spawn(
            child,
            path,
            argv,
            environ,
            streams=(EMPTY if stdin_fd is None else stdin_fd, PIPE, stderr_fd),
            own_session=stdin_fd is None,
            kept_fds=kept,
        )
        pump = child.pump(b"", limits)
        ending = child.follow(pump, deadline)
    finally:
        try:
            child.end()
        finally:
            child.end()  # again, for an interrupt that came just as the first began
    return ProcessOutcome(ending, child.status, pump.stdout, b"", time.monotonic() - started)


def _kill_one(pid: int) -> int | None:
    """End a program that shares our process group, and so our terminal.

    What stopped us at the terminal was told to it as well, so it has a moment to set the terminal right.
    """
    status: int | None = None
    try:
        for signal_number in (0, signal.SIGKILL):
            if status is None:
                os.kill(pid, signal_number)
                status = await_exit(pid, time.monotonic() + DEATH_SECONDS)
    except (ChildProcessError, ProcessLookupError):
        return None
    if status is None:
        left_to_collect.append(pid)
    return status
