"""Descriptors for the standard streams of a program, with numbers above those of the standard streams."""

from __future__ import annotations

import errno
import os
from itertools import chain, repeat, starmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "EMPTY",
    "LAST_STANDARD_FD",
    "NO_FD",
    "PIPE",
    "closer",
    "duplicate",
    "make_pipe",
    "make_pipes",
    "move_up",
]

LAST_STANDARD_FD = 2
# The streams of a program: a pipe to this process, or the null device.
PIPE, EMPTY = -1, -2
NO_FD = -1


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
    if made and min(map(min, made)) <= LAST_STANDARD_FD:
        _move_all_up(made)


def _move_all_up(made: list[tuple[int, int]]) -> None:
    import fcntl

    low = [*chain.from_iterable(made)]
    moved = [NO_FD]
    closing = closer(moved)
    try:
        moved.extend(map(fcntl.fcntl, low, repeat(fcntl.F_DUPFD_CLOEXEC), repeat(LAST_STANDARD_FD + 1)))
    except BaseException:
        any(closing)
        raise
    closing = closer([NO_FD, *low])
    made[:] = zip(moved[1::2], moved[2::2], strict=True)
    any(closing)


def closer(fds: list[int]) -> Iterator[None]:
    """Return an iterator that closes the descriptors behind the last NO_FD of a list, and removes them.

    Make it beforehand, and exhaust it by ``any``: that is one call of C code, in which no signal handler runs. An
    interrupt then leaves none open that is not listed, and none listed that is closed.
    """
    return map(os.close, iter(fds.pop, NO_FD))


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
