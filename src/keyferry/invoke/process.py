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

from keyferry._values import Value, field
from keyferry.invoke.reap import (
    await_exit,
    collect_stragglers,
    kill_group,
    left_to_collect,
    milliseconds_until,
    watch_for_exit,
)
from keyferry.invoke.spawn import spawn

CHUNK = 65536
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
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Outcome:
    """Run ``argv[0]``, a path, with *stdin*, and wait for the end of it and of its output.

    As in the kubelet, the run lasts until every holder of its output pipes has
    closed them and *stdin* was read or refused; unlike there, the deadline ends
    it whoever holds them.
    """
    environ = os.environb if environ is None else environ
    if not hasattr(os, "posix_spawn"):
        from keyferry.invoke.portable import run_portable

        return run_portable(argv, stdin, environ, limits)
    started = time.monotonic()
    if left_to_collect:
        collect_stragglers()
    # An empty pipe takes this much at once: then nothing is left to write while the program runs.
    head = stdin if len(stdin) <= select.PIPE_BUF else b""
    pid, stdin_fd, stdout_fd, stderr_fd = spawn(argv, environ, head, is_all=len(head) == len(stdin))
    exchange = _Exchange(stdin_fd, stdout_fd, stderr_fd, stdin if stdin_fd >= 0 else b"", limits)
    status: int | None = None
    ending = Ending.TIMED_OUT
    deadline = started + limits.timeout_seconds
    try:
        if stdin_fd < 0 and limits.timeout_seconds > _MOMENT_SECONDS:
            watch_for_exit(pid, started + _MOMENT_SECONDS)
        ending = exchange.serve(deadline)
        if ending is Ending.EXITED:
            status = await_exit(pid, deadline)
            ending = Ending.EXITED if status is not None else Ending.TIMED_OUT
    except ChildProcessError:
        ending = Ending.LOST
    finally:
        try:
            # Not yet collected, so the process id, and the group of that number, are still its own.
            if status is None and ending is not Ending.LOST:
                status = kill_group(pid)
        finally:
            exchange.close()
    stdout, stderr = exchange.collected()
    return Outcome(ending, status, stdout, stderr, time.monotonic() - started)


class _Exchange:
    """The three pipes of one run."""

    __slots__ = (
        "_err",
        "_errors",
        "_in",
        "_limits",
        "_out",
        "_output",
        "_poll",
        "_rest",
        "_room",
        "_stderr_seen",
    )

    def __init__(self, stdin_fd: int, stdout_fd: int, stderr_fd: int, stdin: bytes, limits: Limits) -> None:
        self._in = stdin_fd
        self._out = stdout_fd
        self._err = stderr_fd
        self._rest = memoryview(stdin)
        self._limits = limits
        self._room = limits.stdout_bytes
        self._stderr_seen = 0
        # One buffer, not a list of pieces: output in tiny pieces would cost many times its size.
        self._output = bytearray()
        self._errors: list[bytes] = []
        self._poll = select.poll()

    def serve(self, deadline: float) -> Ending:
        """Move bytes until all three pipes are closed, a limit is reached or time is up."""
        poll = self._poll
        if self._in >= 0:
            os.set_blocking(self._in, False)
            self._feed()
        if self._in >= 0:
            poll.register(self._in, select.POLLOUT)
        poll.register(self._out, select.POLLIN)
        poll.register(self._err, select.POLLIN)
        while self._out >= 0 or self._err >= 0 or self._in >= 0:
            milliseconds = milliseconds_until(deadline)
            if not milliseconds:
                return Ending.TIMED_OUT
            for fd, event in poll.poll(milliseconds):
                if (ending := self._move(fd, event)) is not None:
                    return ending
        return Ending.EXITED

    def close(self) -> None:
        for fd in (self._in, self._out, self._err):
            if fd >= 0:
                os.close(fd)
        self._in = self._out = self._err = -1

    def collected(self) -> tuple[bytes, bytes]:
        return bytes(self._output), self._tail_of_errors()

    def _move(self, fd: int, event: int) -> Ending | None:
        if fd == self._in:
            self._feed()
            return None
        keep = self._keep_output if fd == self._out else self._keep_error
        while chunk := os.read(fd, CHUNK):
            # Only a pipe that nobody can write to any more is sure not to block the next read.
            if (ending := keep(chunk)) is not None or not event & select.POLLHUP:
                return ending
        self._shut(fd)
        return None

    def _feed(self) -> None:
        """Write what the pipe takes; a program that closed its input early is no error."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._in, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self._shut(self._in)

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
        if fd == self._out:
            self._out = -1
        elif fd == self._err:
            self._err = -1
        else:
            self._in = -1
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass  # standard input that took everything at once was never registered
        os.close(fd)
