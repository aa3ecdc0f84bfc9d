"""Descriptors for the standard streams of a program, all of them clear of the numbers of our own."""

import errno
import os

__all__ = ["EMPTY", "LAST_STANDARD_FD", "PIPE", "duplicate", "make_pipe", "move_up"]

LAST_STANDARD_FD = 2
# For a stream of a program: a pipe, whose other end is ours; or nothing to read, nowhere to write.
PIPE, EMPTY = -1, -2


def make_pipe() -> tuple[int, int]:
    """A pipe: where to read, and where to write."""
    reader, writer = os.pipe()
    if reader > LAST_STANDARD_FD and writer > LAST_STANDARD_FD:
        return reader, writer
    return move_up(reader), move_up(writer)


def move_up(fd: int) -> int:
    """*fd* under a number clear of the standard streams, which may be closed in a daemon."""
    if fd > LAST_STANDARD_FD:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LAST_STANDARD_FD + 1)
    os.close(fd)
    return moved


def duplicate(fd: int) -> int:
    """A copy of *fd* clear of the standard streams; an empty device for EMPTY, or for one that is closed."""
    if fd != EMPTY:
        try:
            return move_up(os.dup(fd))
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
    return move_up(os.open(os.devnull, os.O_RDWR))
