"""The pipes of a running program: write its input, and read its output and its standard error."""

from __future__ import annotations

import os
import select
import time
from enum import StrEnum
from math import ceil
from queue import Empty, SimpleQueue
from threading import Thread

from keyferry._core.values import Value

_CHUNK = 65536
_IN, _OUT, _ERR = range(3)
# poll() takes milliseconds as a C int; longer waits are repeated.
_MAX_WAIT_SECONDS = 3600.0


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


class Tail:
    """The end of what a program writes, which is the most useful part of a log; other threads may read it meanwhile."""

    __slots__ = ("_kept", "_max_bytes")

    def __init__(self, max_bytes: int = Limits().stderr_bytes) -> None:
        self._max_bytes = max_bytes
        # One buffer, not a list of chunks: output in tiny chunks would take many times its size.
        self._kept = bytearray()

    @property
    def last(self) -> bytes:
        """The last bytes."""
        return bytes(self._kept[max(0, len(self._kept) - self._max_bytes) :])

    @property
    def whole_lines(self) -> bytes:
        """The last bytes, without a first line that the limit cut: part of a secret would not be masked."""
        last = self.last
        return last if len(last) < self._max_bytes else last.partition(b"\n")[2]

    def add(self, chunk: bytes) -> None:
        """Take the next bytes, and drop the oldest if there are too many."""
        self._kept += chunk
        if len(self._kept) > 2 * self._max_bytes:
            del self._kept[: len(self._kept) - self._max_bytes]

    def clear(self) -> None:
        """Drop everything, before another run."""
        self._kept.clear()


class Pump:
    """Writes *stdin* to a program, and collects its output.

    *fds* are this process's ends of the pipes for the three streams, -1 for none. Each is closed and set to -1 at its
    end. All are served together, so that neither a program that does not read its input nor one that floods its
    standard error blocks the others. A step also ends when *wake_fd*, if given, becomes readable. With *tail*, the
    standard error goes there without a limit, and need not end.
    """

    __slots__ = (
        "_errors",
        "_errors_seen",
        "_fds",
        "_limits",
        "_output",
        "_poll",
        "_rest",
        "_wake_fd",
        "tail",
    )

    def __init__(
        self, fds: list[int], stdin: bytes, limits: Limits, wake_fd: int = -1, tail: Tail | None = None
    ) -> None:
        self._fds = fds
        self._rest = memoryview(stdin)
        self._limits = limits
        self._wake_fd = wake_fd
        self._output = bytearray()
        self._errors_seen = 0
        self.tail = tail
        self._errors = Tail(limits.stderr_bytes) if tail is None else tail
        self._begin()

    @property
    def is_open(self) -> bool:
        """Whether a pipe whose end counts is still open: the input's, the output's and, without a tail, the errors'."""
        return max(self._fds if self.tail is None else self._fds[:_ERR]) >= 0

    @property
    def has_wake(self) -> bool:
        """Whether *wake_fd* will still end a step."""
        return self._wake_fd >= 0

    @property
    def stdout(self) -> bytes:
        """The standard output so far."""
        return bytes(self._output)

    @property
    def stderr(self) -> bytes:
        """The end of the standard error so far."""
        return self._errors.last if self.tail is None else self.tail.whole_lines

    def step(self, seconds: float) -> Ending | None:
        """Transfer the data that is available, waiting at most *seconds*; return an ending if a limit is exceeded."""
        for fd, _ in self._poll.poll(ceil(min(max(0.0, seconds), _MAX_WAIT_SECONDS) * 1000)):
            if fd == self._wake_fd:
                self._poll.unregister(fd)
                self._wake_fd = -1
            elif (ending := self._move(fd)) is not None:
                return ending
        return None

    def finish_tail(self, seconds: float) -> None:
        """Read the rest of the standard error, waiting at most *seconds* for its end.

        A process that the program left behind may keep it open; what that one writes later is read and dropped, so that
        it can go on.
        """
        deadline = time.monotonic() + seconds
        while self._fds[_ERR] >= 0 and (left := deadline - time.monotonic()) > 0:
            self.step(left)
        fd, self._fds[_ERR] = self._fds[_ERR], -1
        if fd < 0:
            return
        try:
            Thread(target=_drop, args=(fd,), daemon=True).start()
        except RuntimeError:  # the system has no thread for it
            os.close(fd)

    def _begin(self) -> None:
        self._poll = select.poll()
        stdin, *outputs = self._fds
        for fd in (*outputs, self._wake_fd):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)
        if stdin >= 0:
            os.set_blocking(stdin, False)
            self._poll.register(stdin, select.POLLOUT)
            self._feed(stdin)

    def _move(self, fd: int) -> Ending | None:
        stream = self._fds.index(fd)
        if stream == _IN:
            self._feed(fd)
        elif chunk := os.read(fd, _CHUNK):
            return self._keep(stream, chunk)
        else:
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
        if stream == _OUT:
            if len(self._output) + len(chunk) > self._limits.stdout_bytes:
                return Ending.STDOUT_LIMIT
            self._output += chunk
            return None
        self._errors.add(chunk)
        self._errors_seen += len(chunk)
        is_flood = self.tail is None and self._errors_seen > self._limits.stderr_drained_bytes
        return Ending.STDERR_LIMIT if is_flood else None

    def _shut(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._fds[self._fds.index(fd)] = -1
        os.close(fd)


def _drop(fd: int) -> None:
    try:
        while os.read(fd, _CHUNK):
            pass
    finally:
        os.close(fd)


class ThreadedPump(Pump):
    """A pump for Windows, where pipes cannot be polled: a thread waits on each.

    A thread owns its pipe: if the pipe were closed here, the thread could read from the next file with its number. A
    thread whose pipe another program holds open is left running.
    """

    __slots__ = ("_ends", "_open")

    @property
    def is_open(self) -> bool:
        """Whether a pipe whose end counts is still open: the input's, the output's and, without a tail, the errors'."""
        return bool(self._open if self.tail is None else self._open - {_ERR})

    def step(self, seconds: float) -> Ending | None:
        """Wait at most *seconds* for the end of a pipe; return an ending if a limit is exceeded."""
        try:
            stream, ending = self._ends.get(timeout=min(max(0.0, seconds), _MAX_WAIT_SECONDS))
        except Empty:
            return None
        self._open.discard(stream)
        return ending

    def finish_tail(self, seconds: float) -> None:
        """Wait at most *seconds* for the end of the standard error, whose thread reads on."""
        deadline = time.monotonic() + seconds
        while _ERR in self._open and (left := deadline - time.monotonic()) > 0:
            self.step(left)

    def _begin(self) -> None:
        self._ends: SimpleQueue[tuple[int, Ending | None]] = SimpleQueue()
        self._open = {stream for stream, fd in enumerate(self._fds) if fd >= 0}
        for stream in self._open:
            fd, self._fds[stream] = self._fds[stream], -1
            Thread(target=self._drain if stream else self._feed_all, args=(fd, stream), daemon=True).start()

    def _feed_all(self, fd: int, stream: int) -> None:
        try:
            while self._rest:
                self._rest = self._rest[os.write(fd, self._rest[:_CHUNK]) :]
        except OSError:
            pass  # the program closed its input early
        finally:
            os.close(fd)
            self._ends.put((stream, None))

    def _drain(self, fd: int, stream: int) -> None:
        ending = None
        try:
            while ending is None and (chunk := os.read(fd, _CHUNK)):
                ending = self._keep(stream, chunk)
        finally:
            os.close(fd)
            self._ends.put((stream, ending))
