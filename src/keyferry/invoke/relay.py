"""Pass on what a program writes, as it comes, without the characters that control a terminal, or keep its end."""

import os
from _thread import allocate_lock, start_new_thread
from codecs import getincrementaldecoder
from errno import EAGAIN

from keyferry._core.program.pipes import make_pipe
from keyferry._core.secrets import printable

__all__ = ["Relay", "Tail"]

_CHUNK = 65536
# A process that the program left behind may keep the pipe open; what it writes later is still passed on.
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
    """A pipe whose content goes to *target*, a descriptor or a tail; *writer_fd* is the end for the program.

    Raises OSError if there is no pipe or no thread for it.
    """

    __slots__ = ("_is_done", "writer_fd")

    def __init__(self, target: int | Tail) -> None:
        reader_fd, self.writer_fd = make_pipe()
        self._is_done = allocate_lock()
        self._is_done.acquire()
        try:
            start_new_thread(_copy, (reader_fd, target, self._is_done))
        except RuntimeError:
            os.close(reader_fd)
            os.close(self.writer_fd)
            # Python does not say why; the system has this reason alone.
            raise OSError(EAGAIN, os.strerror(EAGAIN)) from None

    def finish(self) -> None:
        """Close this process's end for the program, and wait until the rest is written, but not for long."""
        os.close(self.writer_fd)
        self._is_done.acquire(timeout=_LAST_WORDS_SECONDS)


def _copy(reader_fd: int, target: int | Tail, is_done: "LockType") -> None:
    try:
        if isinstance(target, Tail):
            _keep(reader_fd, target)
        else:
            _pass_on(reader_fd, target)
    finally:
        os.close(reader_fd)
        is_done.release()


def _keep(reader_fd: int, tail: Tail) -> None:
    while chunk := os.read(reader_fd, _CHUNK):
        tail.add(chunk)


def _pass_on(reader_fd: int, target_fd: int) -> None:
    decoder = getincrementaldecoder("utf-8")("replace")
    is_open = True
    while is_open:
        chunk = os.read(reader_fd, _CHUNK)
        is_open = bool(chunk)
        # A carriage return before a line feed is the line end of Windows.
        text = decoder.decode(chunk, final=not is_open).replace("\r\n", "\n")
        _write(target_fd, printable(text, "\t\n").encode("utf-8", "replace"))


def _write(fd: int, data: bytes) -> None:
    """Write all of *data*; a target that is closed loses it, as it would lose the program's own writes."""
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        return


TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from _thread import LockType
