"""Run one program to its end: bounded in time and output, nothing left behind.

The program gets a session, and so a process group, of its own; past the
deadline the whole group is killed. Its three standard streams are pipes.

A program that cannot be started raises ``OSError`` or ``ValueError``.
"""

import select
import time
from collections.abc import Mapping

from keyferry._core.program.child import USUAL_WAY, Way
from keyferry._core.program.pump import Ending, Limits
from keyferry._core.program.reap import collect_stragglers, left_to_collect
from keyferry._core.program.spawn import new_child, spawn
from keyferry._core.values import Value, field

__all__ = ["Ending", "Limits", "ProcessOutcome", "run"]

_PIPE_BYTES = getattr(select, "PIPE_BUF", 512)
# A program that is done so soon is not looked at before: one wake-up serves for all it has to say.
_MOMENT_SECONDS = 0.002


class ProcessOutcome(Value):
    """What is left of a run: its status (negative for a signal), its output, how it ended."""

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
    """Run ``argv[0]``, a path, with *stdin*, and wait for the end of it and of its output.

    As in the kubelet, the run lasts until every holder of its output pipes has
    closed them and *stdin* was read or refused; unlike there, the deadline ends
    it whoever holds them.
    """
    started = time.monotonic()
    if left_to_collect:
        collect_stragglers()
    deadline = started + limits.timeout_seconds
    # An empty pipe takes this much at once: then nothing is left to write while the program runs.
    is_short = len(stdin) <= _PIPE_BYTES
    child = new_child(way=way)
    try:
        spawn(child, argv[0], argv, environ, stdin=stdin if is_short else None)
        pump = child.pump(stdin, limits)
        is_watched = is_short and limits.timeout_seconds > _MOMENT_SECONDS
        ending = child.follow(pump, deadline, moment=started + _MOMENT_SECONDS if is_watched else None)
    finally:
        try:
            child.end()
        finally:
            child.end()  # again, for an interrupt that came just as the first began
    return ProcessOutcome(ending, child.status, pump.stdout, pump.stderr, time.monotonic() - started)
