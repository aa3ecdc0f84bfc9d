"""Start one program with given streams in its own session, without inherited descriptors."""

import errno
import os
import time

from keyferry._core.program.child import USUAL_WAY, Child, Way
from keyferry._core.program.pipes import PIPE, duplicate, make_pipe
from keyferry._core.program.reap import kill_group
from keyferry._core.program.signals import HeldSignals, NothingBlocked

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["new_child", "spawn"]

_THREADS = Way.THREADS
_BUSY_TRIES = 5
_BUSY_SECONDS = 0.02


def new_child(
    kill: "Callable[[int], int | None]" = kill_group, *, kills_always: bool = False, way: Way = USUAL_WAY
) -> Child:
    """Return a program to be started in the given way."""
    if way is not _THREADS:
        return Child(kill, kills_always=kills_always, way=way)
    from keyferry._core.program.portable import PortableChild

    return PortableChild()


def spawn(
    child: Child,
    path: str | None,
    argv: "Sequence[str]",
    environ: "Mapping[bytes, bytes] | None",
    *,
    streams: tuple[int, int, int] = (PIPE, PIPE, PIPE),
    stdin: bytes | None = None,
    own_session: bool = True,
    kept_fds: tuple[int, ...] = (),
) -> None:
    """Start *path* as *child*, which the caller terminates; raise OSError or ValueError if it cannot be started.

    Without *path*, ``argv[0]`` is searched for in PATH. Without *environ*, the program gets this process's environment.
    A stream is PIPE, EMPTY or a descriptor, for which EMPTY is used if it is closed. *stdin* is the whole input of the
    program, and must fit into a pipe; without it the pipe stays open. The program inherits *kept_fds* under their
    numbers and no other descriptor but its three streams. No signal is blocked in it, and none is ignored because
    Python ignores it.
    """
    theirs: list[int] = []
    with HeldSignals():
        try:
            for number, wanted in enumerate(streams):
                if wanted != PIPE:
                    theirs.append(duplicate(wanted))
                    continue
                reader, writer = make_pipe()
                child.fds[number] = reader if number else writer
                theirs.append(writer if number else reader)
            if stdin is not None:
                os.write(child.fds[0], stdin)
                child.close(0)
            fds = theirs[0], theirs[1], theirs[2]
            _start(child, path, argv, environ, fds, own_session=own_session, kept_fds=kept_fds)
        finally:
            for fd in theirs:
                os.close(fd)


def _start(
    child: Child,
    path: str | None,
    argv: "Sequence[str]",
    environ: "Mapping[bytes, bytes] | None",
    fds: tuple[int, int, int],
    *,
    own_session: bool,
    kept_fds: tuple[int, ...],
) -> None:
    """Start the program; retry for a short time while its file is open for writing."""
    # A bare name is a file in the working directory, and is not searched for in PATH.
    if path is not None and os.sep not in path and not os.path.dirname(path):
        path = os.path.join(os.curdir, path)
    for patience in range(_BUSY_TRIES, -1, -1):
        try:
            with NothingBlocked():
                child.start(path, argv, environ, fds, own_session=own_session, kept_fds=kept_fds)
        except OSError as error:
            if error.errno != errno.ETXTBSY or not patience:
                raise
            time.sleep(_BUSY_SECONDS)
        else:
            return
