"""The pipes of a running program: write its input, and read its output and its standard error."""

from __future__ import annotations

import os
import select
import time
from enum import StrEnum

from keyferry._core.program.reap import milliseconds
from keyferry._core.values import Value

__all__ = ["CHUNK", "Ending", "Limits", "Pump"]

CHUNK = 65536
_IN, _OUT = 0, 1
# 0 where pipes cannot be polled and threads serve them.
POLLIN, POLLHUP = getattr(select, "POLLIN", 0), getattr(select, "POLLHUP", 0)


class Limits(Value):
    """The limits of one run."""

    timeout_seconds: float = 60.0
    # Thousands of times the size of a response; a larger one would take longer to read than callers wait.
    stdout_bytes: int = 4 * 1024 * 1024
    stderr_bytes: int = 64 * 1024
    # Standard error beyond stderr_bytes is read and dropped, up to this limit.
    stderr_drained_bytes: int = 64 * 1024 * 1024


class Ending(StrEnum):
    """The way in which a run ended."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    STDOUT_LIMIT = "wrote too much to standard output"
    STDERR_LIMIT = "wrote too much to standard error"
    # This process ignores SIGCHLD, or other code in it waits for any child.
    LOST = "was collected by other code of this process"


class Pump:
    """Writes *stdin* to a program, and collects its output.

    *fds* are this process's ends of the pipes for the three streams, -1 for none. Each is closed and set to -1 at its
    end. All are served together, so that neither a program that does not read its input nor one that floods its
    standard error blocks the others. A step also ends when *wake_fd*, if given, becomes readable. *head* is output that
    was already read.
    """

    __slots__ = (
        "_early",
        "_errors",
        "_errors_seen",
        "_fds",
        "_limits",
        "_output",
        "_poll",
        "_rest",
        "_wake_fd",
    )

    def __init__(
        self, fds: list[int], stdin: bytes, limits: Limits, wake_fd: int = -1, *, head: bytes = b""
    ) -> None:
        self._fds = fds
        self._rest = memoryview(stdin)
        self._limits = limits
        self._wake_fd = wake_fd
        # One buffer, not a list of chunks: output in tiny chunks would take many times its size.
        self._output = bytearray()
        self._errors = bytearray()
        self._errors_seen = 0
        self._early = self._keep(_OUT, head)
        self._begin()

    @property
    def is_open(self) -> bool:
        """Whether an output pipe is still open, or input is still to be written."""
        return max(self._fds) >= 0

    @property
    def stdout(self) -> bytes:
        """The standard output so far."""
        return bytes(self._output)

    @property
    def stderr(self) -> bytes:
        """The end of the standard error so far."""
        return bytes(self._errors[max(0, len(self._errors) - self._limits.stderr_bytes) :])

    def serve(self, deadline: float) -> Ending:
        """Transfer data until all pipes are closed, a limit is exceeded or the deadline passes."""
        if self._early is not None:
            return self._early
        while self.is_open:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                return Ending.TIMED_OUT
            if (ending := self.step(seconds)) is not None:
                return ending
        return Ending.EXITED

    def step(self, seconds: float) -> Ending | None:
        """Transfer the data that is available, waiting at most *seconds*; return an ending if a limit is exceeded."""
        for fd, event in self._poll.poll(milliseconds(seconds)):
            if fd == self._wake_fd:
                self._poll.unregister(fd)
                self._wake_fd = -1
            elif (ending := self._move(fd, event)) is not None:
                return ending
        return None

    def _begin(self) -> None:
        self._poll = select.poll()
        stdin, *outputs = self._fds
        for fd in (*outputs, self._wake_fd):
            if fd >= 0:
                self._poll.register(fd, POLLIN)
        if stdin >= 0:
            os.set_blocking(stdin, False)
            self._poll.register(stdin, select.POLLOUT)
            self._feed(stdin)

    def _move(self, fd: int, event: int) -> Ending | None:
        stream = self._fds.index(fd)
        if stream == _IN:
            self._feed(fd)
            return None
        while event & POLLIN and (chunk := os.read(fd, CHUNK)):
            # Only a pipe that nobody can write to any more is certain not to block the next read.
            if (ending := self._keep(stream, chunk)) is not None or not event & POLLHUP:
                return ending
            if len(chunk) < CHUNK:  # after a hang-up, everything was read
                break
        self._shut(fd)
        return None

    def _feed(self, fd: int) -> None:
        """Write as much as the pipe takes; it is not an error if the program has closed its input."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(fd, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self._shut(fd)

    def _keep(self, stream: int, chunk: bytes) -> Ending | None:
        limits = self._limits
        if stream == _OUT:
            if len(self._output) + len(chunk) > limits.stdout_bytes:
                return Ending.STDOUT_LIMIT
            self._output += chunk
            return None
        self._errors_seen += len(chunk)
        self._errors += chunk
        # The end of a log is the most useful part.
        if len(self._errors) > 2 * limits.stderr_bytes:
            del self._errors[: len(self._errors) - limits.stderr_bytes]
        return Ending.STDERR_LIMIT if self._errors_seen > limits.stderr_drained_bytes else None

    def _shut(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._fds[self._fds.index(fd)] = -1
        os.close(fd)
