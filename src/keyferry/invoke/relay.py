"""Keep the end of what a program writes, without waiting for the processes that it leaves behind."""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from errno import EAGAIN

from keyferry._core.program.pipes import make_pipe

__all__ = ["Relay", "Tail"]

_CHUNK = 65536
# A process that the program left behind may keep the pipe open; what it writes later is read, so that it can go on.
_LAST_WORDS_SECONDS = 0.5
_TAIL_BYTES = 64 * 1024


class Tail:
    """The end of what a program writes, for a caller that masks it before it is shown."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = bytearray()

    @property
    def whole_lines(self) -> bytes:
        """The last bytes, without a first line that the limit cut: part of a secret would not be masked."""
        kept = bytes(self._kept[-_TAIL_BYTES:])
        return kept if len(kept) < _TAIL_BYTES else kept.partition(b"\n")[2]

    def add(self, chunk: bytes) -> None:
        """Take the next bytes, and drop the oldest if there are too many."""
        self._kept += chunk
        if len(self._kept) > 2 * _TAIL_BYTES:
            del self._kept[:-_TAIL_BYTES]

    def clear(self) -> None:
        """Drop everything, before another run."""
        self._kept.clear()


class Relay:
    """A pipe whose content goes to *tail*; *writer_fd* is the end for the program.

    Raises OSError if there is no pipe or no thread for it.
    """

    __slots__ = ("_is_done", "writer_fd")

    def __init__(self, tail: Tail) -> None:
        reader_fd, self.writer_fd = make_pipe()
        self._is_done = allocate_lock()
        self._is_done.acquire()
        try:
            start_new_thread(_keep, (reader_fd, tail, self._is_done))
        except RuntimeError:
            os.close(reader_fd)
            os.close(self.writer_fd)
            # Python does not say why; the system has this reason alone.
            raise OSError(EAGAIN, os.strerror(EAGAIN)) from None

    def finish(self) -> None:
        """Close this process's end for the program, and wait until the rest is read, but not for long."""
        os.close(self.writer_fd)
        self._is_done.acquire(timeout=_LAST_WORDS_SECONDS)


def _keep(reader_fd: int, tail: Tail, is_done: LockType) -> None:
    try:
        while chunk := os.read(reader_fd, _CHUNK):
            tail.add(chunk)
    finally:
        os.close(reader_fd)
        is_done.release()


TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
