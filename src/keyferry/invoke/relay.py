"""Pass on what a program writes, as it comes, without the characters that control a terminal."""

import os
from _thread import allocate_lock, start_new_thread
from codecs import getincrementaldecoder
from errno import EAGAIN

from keyferry._core.program.pipes import make_pipe
from keyferry._core.secrets import printable

__all__ = ["Relay"]

_CHUNK = 65536
# A process that the program left behind may keep the pipe open; what it writes later is still passed on.
_LAST_WORDS_SECONDS = 0.5


class Relay:
    """A pipe whose content is written to *target_fd*; *writer_fd* is the end for the program.

    Raises OSError if there is no pipe or no thread for it.
    """

    __slots__ = ("_is_done", "writer_fd")

    def __init__(self, target_fd: int) -> None:
        reader_fd, self.writer_fd = make_pipe()
        self._is_done = allocate_lock()
        self._is_done.acquire()
        try:
            start_new_thread(_copy, (reader_fd, target_fd, self._is_done))
        except RuntimeError:
            os.close(reader_fd)
            os.close(self.writer_fd)
            # Python does not say why; the system has this reason alone.
            raise OSError(EAGAIN, os.strerror(EAGAIN)) from None

    def finish(self) -> None:
        """Close this process's end for the program, and wait until the rest is written, but not for long."""
        os.close(self.writer_fd)
        self._is_done.acquire(timeout=_LAST_WORDS_SECONDS)


def _copy(reader_fd: int, target_fd: int, is_done: "LockType") -> None:
    decoder = getincrementaldecoder("utf-8")("replace")
    try:
        is_open = True
        while is_open:
            chunk = os.read(reader_fd, _CHUNK)
            is_open = bool(chunk)
            # A carriage return before a line feed is the line end of Windows.
            text = decoder.decode(chunk, final=not is_open).replace("\r\n", "\n")
            _write(target_fd, printable(text, "\t\n").encode("utf-8", "replace"))
    finally:
        os.close(reader_fd)
        is_done.release()


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
