"""Start one program: three pipes for its streams, a session of its own, nothing inherited.

``posix_spawn`` copies no memory and runs no code of ours between fork and exec, so it is safe beside threads.
"""

import errno
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

LAST_STANDARD_FD = 2
_MOST_DESCRIPTORS = 65536
_BUSY_TRIES = 5
_BUSY_SECONDS = 0.02
# Python ignores these two for itself, and exec hands "ignored" down; a plugin expects the defaults.
_DEFAULTED_SIGNALS = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name))
# A session of its own has no terminal that a plugin could prompt on and wait for; elsewhere a group must do.
_OWN_GROUP: dict[str, Any] = {"setsid": True} if sys.platform == "linux" else {"setpgroup": 0}


def spawn(
    argv: tuple[str, ...], environ: Mapping[bytes, bytes], head: bytes, *, is_all: bool
) -> tuple[int, int, int, int]:
    """Start the program with *head* on its input; return its process id and our ends of its three pipes.

    If that *is_all* its input, the pipe is closed and -1 stands for our end of it.
    """
    # Listed before the pipes are there: those close by themselves, and each one more would cost a look.
    closing = close_beyond(LAST_STANDARD_FD)
    fds: list[int] = []
    try:
        fds += make_pipe()
        fds += make_pipe()
        fds += make_pipe()
        child_in, our_in, our_out, child_out, our_err, child_err = fds
        if head:
            os.write(our_in, head)
        dup2 = os.POSIX_SPAWN_DUP2
        actions = [(dup2, child_in, 0), (dup2, child_out, 1), (dup2, child_err, 2), *closing]
        pid = start(argv[0], argv, environ, actions)
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    os.close(child_in)
    os.close(child_out)
    os.close(child_err)
    if is_all:
        os.close(our_in)
        our_in = -1
    return pid, our_in, our_out, our_err


def start(
    path: str,
    argv: tuple[str, ...],
    environ: Mapping[bytes, bytes],
    actions: list[tuple[int, ...]],
    *,
    own_group: bool = True,
) -> int:
    """Start *path*, in a session of its own or in ours; try again for a moment while the file is being written."""
    for patience in range(_BUSY_TRIES, -1, -1):
        try:
            return os.posix_spawn(
                path,
                argv,
                environ,
                file_actions=actions,
                **(_OWN_GROUP if own_group else {}),
                setsigmask=(),
                setsigdef=_DEFAULTED_SIGNALS,
            )
        except OSError as error:
            if error.errno != errno.ETXTBSY or not patience:
                raise
            time.sleep(_BUSY_SECONDS)
    raise AssertionError  # pragma: no cover - the loop returns or raises


def make_pipe() -> tuple[int, int]:
    """A pipe whose ends are clear of the standard streams, which may be closed in a daemon."""
    ends = os.pipe()
    if min(ends) > LAST_STANDARD_FD:
        return ends
    return move_up(ends[0]), move_up(ends[1])


def move_up(fd: int) -> int:
    """*fd* under a number clear of the standard streams."""
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LAST_STANDARD_FD + 1)
    os.close(fd)
    return moved


def close_beyond(last: int) -> list[tuple[int, ...]]:
    """Actions that keep this process's inheritable descriptors after *last* from the program.

    Python's own descriptors close on exec, but a supervisor's sockets, or what
    another library made inheritable, would pass.
    """
    if hasattr(os, "POSIX_SPAWN_CLOSEFROM"):  # Python 3.14 with a libc that has it
        return [(os.POSIX_SPAWN_CLOSEFROM, last + 1)]
    return [
        (os.POSIX_SPAWN_CLOSE, fd)
        for fd in map(int, _open_descriptors())
        if fd > last and _is_inheritable(fd)
    ]


def _open_descriptors() -> Iterable[str]:
    try:
        return os.listdir(_FD_DIRECTORY)
    except OSError:  # no /proc in this sandbox: look at every number there can be
        return map(str, range(LAST_STANDARD_FD + 1, min(os.sysconf("SC_OPEN_MAX"), _MOST_DESCRIPTORS)))


_FD_DIRECTORY = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False  # closed by another thread since it was listed
