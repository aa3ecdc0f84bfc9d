"""Run one program to its end: bounded in time and output, nothing left behind.

The program gets a session, and so a process group, of its own; past the
deadline the whole group is killed. Its three standard streams are pipes, served
together, so that neither a program that never reads its input nor one that
floods its standard error can block the other streams.

A program that cannot be started raises ``OSError`` or ``ValueError``.
"""

import os
import select
import time
from collections.abc import Mapping
from enum import StrEnum

from keyferry._core.values import Value, field
from keyferry.invoke.reap import (
    await_exit,
    collect_stragglers,
    left_to_collect,
    milliseconds_until,
    watch_for_exit,
)
from keyferry.invoke.spawn import Child, spawn

CHUNK = 65536
_IN, _OUT, _ERR = range(3)
_PIPE_BYTES = getattr(select, "PIPE_BUF", 512)
# A program that is done so soon is not looked at before: one wake-up serves for all it has to say.
_MOMENT_SECONDS = 0.002


class Limits(Value):
    """What one run may use."""

    timeout_seconds: float = 60.0
    stdout_bytes: int = 16 * 1024 * 1024
    stderr_bytes: int = 64 * 1024
    # Standard error beyond stderr_bytes is read and dropped, up to here.
    stderr_drained_bytes: int = 64 * 1024 * 1024


class Ending(StrEnum):
    """How a run came to its end."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    STDOUT_LIMIT = "wrote too much to standard output"
    STDERR_LIMIT = "wrote too much to standard error"
    # This process ignores SIGCHLD, or other code in it waits for any child.
    LOST = "was collected by other code of this process"


class Outcome(Value):
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
) -> Outcome:
    """Run ``argv[0]``, a path, with *stdin*, and wait for the end of it and of its output.

    As in the kubelet, the run lasts until every holder of its output pipes has
    closed them and *stdin* was read or refused; unlike there, the deadline ends
    it whoever holds them.
    """
    environ = os.environb if environ is None else environ
    started = time.monotonic()
    if left_to_collect:
        collect_stragglers()
    # An empty pipe takes this much at once: then nothing is left to write while the program runs.
    is_short = len(stdin) <= _PIPE_BYTES
    child = Child()
    exchange = _Exchange(child, b"" if is_short else stdin, limits)
    ending = Ending.TIMED_OUT
    try:
        spawn(child, argv[0], argv, environ, stdin=stdin if is_short else None)
        ending = _follow(child, exchange, started, limits.timeout_seconds)
    finally:
        try:
            child.end()
        finally:
            child.end()  # again, for an interrupt that came just as the first began
    stdout, stderr = exchange.collected()
    return Outcome(ending, child.status, stdout, stderr, time.monotonic() - started)


def _follow(child: Child, exchange: "_Exchange", started: float, timeout_seconds: float) -> Ending:
    """Serve the program's pipes and collect it; at the end of the time, or at a limit, it is left as it is."""
    deadline = started + timeout_seconds
    if child.fds[0] < 0 and timeout_seconds > _MOMENT_SECONDS:
        watch_for_exit(child.pid, started + _MOMENT_SECONDS)
    ending = exchange.serve(deadline)
    return collect(child, deadline) if ending is Ending.EXITED else ending


def collect(child: Child, deadline: float) -> Ending:
    """Wait for the end of a program that has closed its outputs."""
    try:
        status = await_exit(child.pid, deadline)
    except ChildProcessError:
        child.collected(None)
        return Ending.LOST
    if status is None:
        return Ending.TIMED_OUT
    child.collected(status)
    return Ending.EXITED


class _Exchange:
    """The three pipes of one run."""

    __slots__ = ("_child", "_errors", "_limits", "_output", "_poll", "_rest", "_room", "_stderr_seen")

    def __init__(self, child: Child, stdin: bytes, limits: Limits) -> None:
        self._child = child
        self._rest = memoryview(stdin)
        self._limits = limits
        self._room = limits.stdout_bytes
        self._stderr_seen = 0
        # One buffer, not a list of pieces: output in tiny pieces would cost many times its size.
        self._output = bytearray()
        self._errors: list[bytes] = []

    def serve(self, deadline: float) -> Ending:
        """Move bytes until all three pipes are closed, a limit is reached or time is up."""
        self._poll = poll = select.poll()
        fds = self._child.fds
        if fds[_IN] >= 0:
            os.set_blocking(fds[_IN], False)
            self._feed(fds[_IN])
        if fds[_IN] >= 0:
            poll.register(fds[_IN], select.POLLOUT)
        poll.register(fds[_OUT], select.POLLIN)
        poll.register(fds[_ERR], select.POLLIN)
        while max(fds) >= 0:
            milliseconds = milliseconds_until(deadline)
            if not milliseconds:
                return Ending.TIMED_OUT
            for fd, event in poll.poll(milliseconds):
                if (ending := self._move(fd, event)) is not None:
                    return ending
        return Ending.EXITED

    def collected(self) -> tuple[bytes, bytes]:
        return bytes(self._output), self._tail_of_errors()

    def _move(self, fd: int, event: int) -> Ending | None:
        stream = self._child.fds.index(fd)
        if stream == _IN:
            self._feed(fd)
            return None
        keep = self._keep_output if stream == _OUT else self._keep_error
        while chunk := os.read(fd, CHUNK):
            # Only a pipe that nobody can write to any more is sure not to block the next read.
            if (ending := keep(chunk)) is not None or not event & select.POLLHUP:
                return ending
        self._shut(fd)
        return None

    def _feed(self, fd: int) -> None:
        """Write what the pipe takes; a program that closed its input early is no error."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(fd, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self._shut(fd)

    def _keep_output(self, chunk: bytes) -> Ending | None:
        self._room -= len(chunk)
        if self._room < 0:
            return Ending.STDOUT_LIMIT
        self._output += chunk
        return None

    def _keep_error(self, chunk: bytes) -> Ending | None:
        self._stderr_seen += len(chunk)
        self._errors.append(chunk)
        # The end of a log says most, so the tail is kept.
        if len(self._errors) > 1 + 2 * self._limits.stderr_bytes // CHUNK:
            self._errors = [self._tail_of_errors()]
        return Ending.STDERR_LIMIT if self._stderr_seen > self._limits.stderr_drained_bytes else None

    def _tail_of_errors(self) -> bytes:
        text = b"".join(self._errors)
        return text[max(0, len(text) - self._limits.stderr_bytes) :]

    def _shut(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass  # standard input that took everything at once was never registered
        self._child.close(self._child.fds.index(fd))
