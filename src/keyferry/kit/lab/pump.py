"""The three pipes of a run that is watched: moved a step at a time, so that the watcher can look in between."""

import os
import select
from math import ceil

from keyferry.invoke.process import CHUNK, Ending, Limits
from keyferry.invoke.spawn import Child

__all__ = ["Pump"]

_IN, _OUT = 0, 1


class Pump:
    """Feeds a program its input and collects what it says; *pidfd*, or -1, wakes a step when it ends."""

    def __init__(self, child: Child, stdin: bytes, limits: Limits, pidfd: int) -> None:
        self._child = child
        self._fds = child.fds
        self._rest = memoryview(stdin)
        self._limits = limits
        self._pidfd = pidfd
        self._output = bytearray()
        self._errors = bytearray()
        self._errors_seen = 0
        self._poll = select.poll()
        self._register()

    def _register(self) -> None:
        stdin, *outputs = self._fds
        if stdin >= 0:
            os.set_blocking(stdin, False)
            self._poll.register(stdin, select.POLLOUT)
        for fd in (*outputs, self._pidfd):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)

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
        return bytes(self._errors[-self._limits.stderr_bytes :])

    def step(self, seconds: float) -> Ending | None:
        """Move what there is to move, waiting at most so long for it; an ending if a limit is passed."""
        for fd, _ in self._poll.poll(ceil(max(0.0, seconds) * 1000)):
            if fd == self._fds[_IN]:
                self._feed(fd)
            elif fd == self._pidfd:
                self._forget(fd)
                self._pidfd = -1
            elif (ending := self._collect(fd)) is not None:
                return ending
        return None

    def _feed(self, fd: int) -> None:
        try:
            while self._rest:
                self._rest = self._rest[os.write(fd, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass  # it has read as much as it wanted to
        self._shut(fd)

    def _collect(self, fd: int) -> Ending | None:
        chunk = os.read(fd, CHUNK)
        if not chunk:
            self._shut(fd)
            return None
        if fd == self._fds[_OUT]:
            self._output += chunk
            return Ending.STDOUT_LIMIT if len(self._output) > self._limits.stdout_bytes else None
        self._errors_seen += len(chunk)
        self._errors += chunk
        if len(self._errors) > 2 * self._limits.stderr_bytes:
            del self._errors[: -self._limits.stderr_bytes]
        return Ending.STDERR_LIMIT if self._errors_seen > self._limits.stderr_drained_bytes else None

    def _shut(self, fd: int) -> None:
        self._forget(fd)
        self._child.close(self._fds.index(fd))

    def _forget(self, fd: int) -> None:
        self._poll.unregister(fd)
