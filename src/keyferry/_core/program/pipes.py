"""Descriptors for the standard streams of a program, with numbers above those of the standard streams."""

import errno
import os
from itertools import repeat, starmap

__all__ = [
    "EMPTY",
    "LAST_STANDARD_FD",
    "PIPE",
    "close_all",
    "duplicate",
    "make_pipe",
    "make_pipes",
    "move_up",
]

LAST_STANDARD_FD = 2
# The streams of a program: a pipe to this process, or the null device.
PIPE, EMPTY = -1, -2


def make_pipe() -> tuple[int, int]:
    """Create a pipe and return its read end and its write end."""
    made: list[tuple[int, int]] = []
    make_pipes(made, 1)
    return made[0]


def make_pipes(made: list[tuple[int, int]], number: int) -> None:
    """Append *number* new pipes to *made*, each as its read end and its write end.

    All are made and appended by C code, in which no signal handler runs: an interrupt leaves none that is not listed.
    """
    made.extend(starmap(os.pipe, repeat((), number)))
    if min(map(min, made), default=PIPE) <= LAST_STANDARD_FD:
        made[:] = [(move_up(reader), move_up(writer)) for reader, writer in made]


def close_all(fds: list[int]) -> None:
    """Close the descriptors of a list and remove them.

    This is done by C code too: an interrupt leaves none open that is not listed, and none listed that is closed.
    """
    any(map(os.close, map(fds.pop, repeat(-1, len(fds)))))


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
