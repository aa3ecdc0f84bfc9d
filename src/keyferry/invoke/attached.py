"""Run a program with the caller's standard input and standard error, or with neither, and collect its output.

client-go gives a plugin its own standard error, and the terminal as standard input if the plugin may prompt. Here a
plugin that may prompt gets both, and the standard error of any other one is kept, so that an error can contain it.
"""

# The module behind `signal`, which also makes enums of all signals.
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed does not list it
import os
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
from keyferry.invoke.relay import Relay, Tail


def run_attached(
    argv: tuple[str, ...],
    *,
    program: str | int,
    environ: Mapping[bytes, bytes],
    limits: Limits = Limits(),
    stdin_fd: int | None = None,
    stderr_fd: int = LAST_STANDARD_FD,
    stderr_tail: Tail | None = None,
    way: Way = USUAL_WAY,
) -> ProcessOutcome:
    """Run *program*, a path or on Linux a descriptor. Raises OSError or ValueError if it cannot be started.

    Without *stdin_fd*, its standard input is empty, it runs in a new session, and the end of its standard error is
    part of the outcome; it is in *stderr_tail*, too, while the program runs. With *stdin_fd*, it stays in this
    process's session, since it could not read from the terminal otherwise, and writes to *stderr_fd* itself.
    """
    started = time.monotonic()
    collect_stragglers()
    deadline = started + limits.timeout_seconds
    child = new_child(kill_group if stdin_fd is None else _kill_one, way=way)
    # The descriptor is inherited: for a script, the kernel passes this path to the interpreter, which opens it.
    path, kept = (program, ()) if isinstance(program, str) else (f"/proc/self/fd/{program}", (program,))
    tail = Tail() if stderr_tail is None else stderr_tail
    relay = Relay(tail) if stdin_fd is None else None
    try:
        spawn(
            child,
            path,
            argv,
            environ,
            streams=(
                EMPTY if stdin_fd is None else stdin_fd,
                PIPE,
                stderr_fd if relay is None else relay.writer_fd,
            ),
            own_session=stdin_fd is None,
            kept_fds=kept,
        )
        pump = child.pump(b"", limits)
        ending = child.follow(pump, deadline)
    finally:
        try:
            child.end()
        finally:
            child.end()  # again, in case an interrupt arrived at the start of the first call
            if relay is not None:
                relay.finish()
    return ProcessOutcome(ending, child.status, pump.stdout, tail.whole_lines, time.monotonic() - started)


def _kill_one(pid: int) -> int | None:
    """Kill a program that shares this process's group, and therefore its terminal.

    An interrupt from the terminal goes to the program, too, so it gets some time to restore the terminal.
    """
    status: int | None = None
    try:
        for signal_number in (0, _signal.SIGKILL):
            if status is None:
                os.kill(pid, signal_number)
                status = await_exit(pid, time.monotonic() + DEATH_SECONDS)
    except (ChildProcessError, ProcessLookupError):
        return None
    if status is None:
        left_to_collect.append(pid)
    return status
