"""Run one program until it ends, with limits on time and output, and leave no process behind.

The program runs in its own session, and therefore its own process group; after the deadline the whole group
is killed. Its three standard streams are pipes.
"""

from __future__ import annotations

import select
import time

from keyferry._core.program.child import USUAL_WAY, Child, Way
from keyferry._core.program.pump import Ending, Limits
from keyferry._core.program.reap import collect_stragglers, left_to_collect, signal_group
from keyferry._core.program.report import REPORT_BYTES, could_not_begin
from keyferry._core.program.spawn import new_child, spawn
from keyferry._core.values import Value, field, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Ending", "Limits", "ProcessOutcome", "kill_runs", "run"]

_PIPE_BYTES = getattr(select, "PIPE_BUF", 512)
# With less time than this, the deadline is watched from the beginning.
_ENOUGH_SECONDS = 0.01
# With less time than this, a report of a failed start might come too late.
_HASTE_SECONDS = 1.0

# The programs that run, in any thread.
_under_way: set[Child] = set()


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
    stdin: bytes = b"",
    environ: Mapping[bytes, bytes] | None = None,
    limits: Limits = Limits(),
    way: Way = USUAL_WAY,
) -> ProcessOutcome:
    """Run ``argv[0]``, a path, with *stdin*, and wait until the program and its output end.

    As in the kubelet, the run lasts until all processes that hold its output pipes have closed them and *stdin*
    was read or closed. Unlike in the kubelet, the deadline ends the run even if a process still holds a pipe.
    Raises OSError or ValueError if the program cannot be started.
    """
    is_hasty = way is Way.FORK_EXEC and limits.timeout_seconds >= _HASTE_SECONDS
    is_hasty = is_hasty and limits.stderr_bytes >= REPORT_BYTES
    outcome = _run(argv, stdin, environ, limits, way, is_hasty=is_hasty)
    if not is_hasty or outcome.status == 0 or outcome.stdout:
        return outcome
    if not could_not_begin(outcome.status, outcome.stderr):
        return outcome
    # Once more, with a pipe for the report alone, to which no program can write. Most runs are spared that pipe.
    left = replace(limits, timeout_seconds=limits.timeout_seconds - outcome.seconds)
    return _run(argv, stdin, environ, left, way, is_hasty=False)


def _run(
    argv: tuple[str, ...],
    stdin: bytes,
    environ: Mapping[bytes, bytes] | None,
    limits: Limits,
    way: Way,
    *,
    is_hasty: bool,
) -> ProcessOutcome:
    started = time.monotonic()
    if left_to_collect:
        collect_stragglers()
    deadline = started + limits.timeout_seconds
    # This much fits into an empty pipe, so it is written before the program runs.
    is_short = len(stdin) <= _PIPE_BYTES
    child = new_child(way=way)
    try:
        _under_way.add(child)
        spawn(child, argv[0], argv, environ, stdin=stdin if is_short else None, is_hasty=is_hasty)
        stdout = child.read_at_once(limits) if is_short and limits.timeout_seconds > _ENOUGH_SECONDS else None
        if stdout is not None:
            ending, stderr = child.wait(deadline), b""
        else:
            pump = child.pump(stdin, limits)
            ending = child.follow(pump, deadline)
            stdout, stderr = pump.stdout, pump.stderr
    finally:
        try:
            child.end()
        finally:
            child.end()  # again, in case an interrupt arrived at the start of the first call
            _under_way.discard(child)
    return ProcessOutcome(ending, child.status, stdout, stderr, time.monotonic() - started)


def kill_runs() -> None:
    """Kill the programs of all runs under way, with their process groups.

    The runs return in their threads, as if others had killed the programs.
    """
    for child in tuple(_under_way):
        # A program that is collected just now keeps its number for long enough: the kernel gives numbers in turn.
        if pid := child.pid:
            signal_group(pid)
