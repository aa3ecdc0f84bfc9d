"""Run one program until it ends, with limits on time and output, and leave no process behind.

The program runs in its own session, and therefore its own process group, and after the deadline the whole group is
killed; only a program that has the terminal stays in the session of this process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from keyferry._core.program.kill import collect_stragglers, kill_group
from keyferry._core.program.pump import Ending, Limits, Tail
from keyferry._core.program.start import EMPTY, PIPE, Program
from keyferry._core.values import Value, field

__all__ = ["Ending", "Limits", "ProcessOutcome", "Tail", "kill_runs", "run"]

# A process that the program left behind may keep its standard error open.
_LAST_WORDS_SECONDS = 0.5

# The programs that run, in any thread.
_running: set[Program] = set()


class ProcessOutcome(Value):
    """The result of a run: how it ended, the exit status (negative for a signal), and the output."""

    ending: Ending
    status: int | None
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    seconds: float


def run(
    argv: tuple[str, ...],
    *,
    program: str | int | None = None,
    stdin: bytes | None = b"",
    environ: Mapping[bytes, bytes] | None = None,
    limits: Limits = Limits(),
    terminal: tuple[int, int] | None = None,
    stderr_tail: Tail | None = None,
    root: str = "",
) -> ProcessOutcome:
    """Run *program*, a path or on Linux a descriptor, by default ``argv[0]``, until it and its output end.

    It reads *stdin*, or the null device if that is None. As in the kubelet, the run lasts until all processes that hold
    its output pipes have closed them and *stdin* was read or closed. Unlike in the kubelet, the deadline ends the run
    even if a process still holds a pipe. With *stderr_tail*, as in client-go, a process that was left behind may go on
    writing to the standard error, of which the last whole lines are the outcome's and in the tail meanwhile. With
    *terminal*, the descriptors of a standard input and a standard error, the program has those, and stays in the
    session of this process, since it could not read from the terminal otherwise. With *root*, that folder is the
    program's root (``chroot``), and its working directory.
    Raises OSError or ValueError if the program cannot be started.
    """
    started = time.monotonic()
    collect_stragglers()
    program = argv[0] if program is None else program
    # A descriptor is inherited: for a script, the kernel passes this path to the interpreter, which opens it.
    path = program if isinstance(program, str) else f"/proc/self/fd/{program}"
    kept_fds = () if isinstance(program, str) else (program,)
    input_stream, error_stream = (EMPTY if stdin is None else PIPE, PIPE) if terminal is None else terminal
    running = Program(own_session=terminal is None, root=root)
    try:
        _running.add(running)
        running.start(path, argv, environ, streams=(input_stream, PIPE, error_stream), kept_fds=kept_fds)
        pump = running.pump(stdin or b"", limits, stderr_tail)
        ending = running.follow(pump, started + limits.timeout_seconds)
        if stderr_tail is not None:
            running.kill()
            pump.finish_tail(_LAST_WORDS_SECONDS)
    finally:
        try:
            running.end()
        finally:
            running.end()  # again, in case an interrupt arrived at the start of the first call
            _running.discard(running)
    return ProcessOutcome(
        ending=ending,
        status=running.status,
        stdout=pump.stdout,
        stderr=pump.stderr,
        seconds=time.monotonic() - started,
    )


def kill_runs() -> None:
    """Kill the programs of all runs under way, with their process groups.

    The runs return in their threads, as if others had killed the programs.
    """
    for running in tuple(_running):
        # A program that is collected just now keeps its number for long enough: the kernel gives numbers in turn.
        if pid := running.pid:
            kill_group(pid)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)
