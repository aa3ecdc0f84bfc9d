"""Files read whole, up to a limit: a path that a user names may be a device or a pipe that never ends."""

from __future__ import annotations

import os
import sys
from errno import EBADF, EFBIG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


# Ten times the config of thousands of providers; as YAML, reading it takes about 2.5 GB of memory.
MAX_BYTES = 16 << 20


class TooLargeError(OSError):
    """A file with more bytes than are read; ``strerror`` tells how many that are."""


def read_path(path: str | os.PathLike[str], most_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file; raise OSError, TooLargeError if there are more than *most_bytes*, or ValueError."""
    with open(path, "rb") as stream:
        return read_stream(stream, most_bytes)


def open_now(path: str, flags: int) -> int:
    """Open a file without blocking, in case the path is a named pipe: an opener for ``open``."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def standard_input() -> BinaryIO:
    """Return standard input; raise OSError if it is closed."""
    if sys.stdin is None:
        raise OSError(EBADF, "it is closed")
    return sys.stdin.buffer


def read_stream(stream: BinaryIO, most_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of an open file, such as standard input; raise OSError as ``read_path`` does."""
    data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise TooLargeError(EFBIG, f"it has more than {most_bytes >> 20} MiB, the most that is read")
    return data
