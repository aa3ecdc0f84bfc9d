"""The pipes of a running program, moved a step at a time: what it reads, what it writes, and what it complains of."""

import os
import select
import time
from enum import StrEnum

from keyferry._core.program.reap import milliseconds
from keyferry._core.values import Value

__all__ = ["CHUNK", "Ending", "Limits", "Pump"]

CHUNK = 65536
_IN, _OUT = 0, 1
# Not where pipes cannot be polled, and are moved by threads.
_POLLIN, _POLLHUP = getattr(select, "POLLIN", 0), getattr(select, "POLLHUP", 0)


class Limits(Value):
    """What one run may use."""

    timeout_seconds: float = 60.0
    # Thousands of times what an answer needs; more would take longer to read than a caller waits.
    stdout_bytes: int = 4 * 1024 * 1024
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


# By a name of its own where every run comes by: to ask an enum for a member runs Python code up to 3.11.
_EXITED = Ending.EXITED


class Pump:
    """Feeds a program *stdin*, and collects what it writes.

    *fds* are our ends of the pipes for its three streams, -1 where there is none; they are closed and become -1 one
    by one. All are served together, so that neither a program that never reads its input nor one that floods its
    standard error can block the others. A step also ends when *wake_fd*, if it is given, becomes readable.
    """

    __slots__ = ("_errors", "_errors_seen", "_fds", "_limits", "_output", "_poll", "_rest", "_wake_fd")

    def __init__(self, fds: list[int], stdin: bytes, limits: Limits, wake_fd: int = -1) -> None:
        self._fds = fds
        self._rest = memoryview(stdin)
        self._limits = limits
        self._wake_fd = wake_fd
        # One buffer, not a list of pieces: output in tiny pieces would cost many times its size.
        self._output = bytearray()
        self._errors = bytearray()
        self._errors_seen = 0
        self._begin()

    @property
    def is_open(self) -> bool:
        """Tell whether somebody still holds an output pipe, or has input to read."""
        return max(self._fds) >= 0

    @property
    def stdout(self) -> bytes:
        """What was written to standard output."""
        return bytes(self._output)

    @property
    def stderr(self) -> bytes:
        """The end of what was written to standard error."""
        return bytes(self._errors[max(0, len(self._errors) - self._limits.stderr_bytes) :])

    def finish(self) -> Ending | None:
        """Take what a program that has ended leaves, if that is little and on its standard output alone.

        Otherwise None: it is to be served. The pipes are the caller's to close.
        """
        _, output, errors = self._fds
        # Hung up, nobody can write to a pipe any more, and a read that is given less than it asks for has got all.
        if self._poll.poll(0) != [(output, _POLLIN | _POLLHUP), (errors, _POLLHUP)]:
            return None
        chunk = os.read(output, CHUNK)
        ending = self._keep(_OUT, chunk)
        return _EXITED if ending is None and len(chunk) < CHUNK else ending

    def serve(self, deadline: float) -> Ending:
        """Move bytes until all pipes are closed, a limit is passed or time is up."""
        while self.is_open:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                return Ending.TIMED_OUT
            if (ending := self.step(seconds)) is not None:
                return ending
        return Ending.EXITED

    def step(self, seconds: float) -> Ending | None:
        """Move what there is to move, waiting at most so long for it; an ending if a limit is passed."""
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
                self._poll.register(fd, _POLLIN)
        if stdin >= 0:
            os.set_blocking(stdin, False)
            self._poll.register(stdin, select.POLLOUT)
            self._feed(stdin)

    def _move(self, fd: int, event: int) -> Ending | None:
        stream = self._fds.index(fd)
        if stream == _IN:
            self._feed(fd)
            return None
        while event & _POLLIN and (chunk := os.read(fd, CHUNK)):
            # Only a pipe that nobody can write to any more is sure not to block the next read.
            if (ending := self._keep(stream, chunk)) is not None or not event & _POLLHUP:
                return ending
            if len(chunk) < CHUNK:  # of such a pipe, that is all there is
                break
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

    def _keep(self, stream: int, chunk: bytes) -> Ending | None:
        limits = self._limits
        if stream == _OUT:
            if len(self._output) + len(chunk) > limits.stdout_bytes:
                return Ending.STDOUT_LIMIT
            self._output += chunk
            return None
        self._errors_seen += len(chunk)
        self._errors += chunk
        # The end of a log says most, so the tail is kept.
        if len(self._errors) > 2 * limits.stderr_bytes:
            del self._errors[: len(self._errors) - limits.stderr_bytes]
        return Ending.STDERR_LIMIT if self._errors_seen > limits.stderr_drained_bytes else None

    def _shut(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._fds[self._fds.index(fd)] = -1
        os.close(fd)
