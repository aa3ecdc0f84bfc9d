"""Descriptors for the standard streams of a program, with numbers above those of the standard streams."""

import errno
import os

__all__ = ["EMPTY", "LAST_STANDARD_FD", "PIPE", "duplicate", "make_pipe", "move_up"]

LAST_STANDARD_FD = 2
# The streams of a program: a pipe to this process, or the null device.
PIPE, EMPTY = -1, -2


def make_pipe() -> tuple[int, int]:
    """Create a pipe and return its read end and its write end."""
    reader, writer = os.pipe()
    if reader > LAST_STANDARD_FD and writer > LAST_STANDARD_FD:
        return reader, writer
    return move_up(reader), move_up(writer)


def move_up(fd: int) -> int:
    """Return *fd* under a number above those of the standard streams, which may be closed in a daemon."""
    if fd > LAST_STANDARD_FD:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LAST_STANDARD_FD + 1)
    os.close(fd)
    return moved


def duplicate(fd: int) -> int:
    """Return a copy of *fd* above the standard streams; of the null device if *fd* is EMPTY or closed."""
    if fd != EMPTY:
        try:
            return move_up(os.dup(fd))
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
    return move_up(os.open(os.devnull, os.O_RDWR))
