"""Start one program: streams of our choice, a session of its own, nothing inherited, and never lost from sight."""

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
    """A program that is to be started, in the usual way of this system or in another one."""
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
    """Start *path* as *child*, which the caller ends; raises OSError or ValueError if it cannot be started.

    Without *path*, ``argv[0]`` is searched for in PATH; without *environ* the program gets ours. A stream is PIPE,
    EMPTY or a descriptor of ours, and EMPTY if that is closed. *stdin* is all of the program's input, if one pipe
    takes it at once; without it the pipe stays open. *kept_fds* stay open in the program under their numbers, and
    nothing else does beyond its three streams. No signal is blocked in it, or ignored by our doing.
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
    """Start it and note its process id; try again for a moment while the file is being written."""
    # A bare name is a file in the working directory, and not to be searched for.
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
