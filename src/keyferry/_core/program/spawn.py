"""Start one program with given streams in its own session, without inherited descriptors."""

from __future__ import annotations

import errno
import os
import time
from itertools import chain
from threading import Lock

from keyferry._core.program.child import USUAL_WAY, Child, Way
from keyferry._core.program.pipes import NO_FD, PIPE, closer, duplicate, make_pipes
from keyferry._core.program.reap import kill_group
from keyferry._core.program.signals import HeldSignals, NothingBlocked, are_any_blocked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["new_child", "spawn"]

_THREADS = Way.THREADS
_BUSY_TRIES = 5
_BUSY_SECONDS = 0.02
_TURN_SECONDS = 0.1


def new_child(
    kill: Callable[[int], int | None] = kill_group, *, kills_always: bool = False, way: Way = USUAL_WAY
) -> Child:
    """Return a program to be started in the given way."""
    if way is not _THREADS:
        return Child(kill, kills_always=kills_always, way=way)
    from keyferry._core.program.portable import PortableChild

    return PortableChild()


def spawn(
    child: Child,
    path: str | None,
    argv: Sequence[str],
    environ: Mapping[bytes, bytes] | None,
    *,
    streams: tuple[int, int, int] = (PIPE, PIPE, PIPE),
    stdin: bytes | None = None,
    own_session: bool = True,
    kept_fds: tuple[int, ...] = (),
    is_hasty: bool = False,
) -> None:
    """Start *path* as *child*, which the caller terminates; raise OSError or ValueError if it cannot be started.

    Without *path*, ``argv[0]`` is searched for in PATH. Without *environ*, the program gets this process's environment.
    A stream is PIPE, EMPTY or a descriptor, for which EMPTY is used if it is closed. *stdin* is the whole input of the
    program, and must fit into a pipe; without it the pipe stays open. The program inherits *kept_fds* under their
    numbers and no other descriptor but its three streams. No signal is blocked in it, and none is ignored because
    Python ignores it.

    With *is_hasty*, which is for programs with three pipes, the fastest way does not wait for the program to be
    executed. If it cannot be, the reason is written to its standard error; see ``could_not_begin``.
    """
    # A bare name is a file in the working directory, and is not searched for in PATH.
    if path is not None and os.sep not in path and not os.path.dirname(path):
        path = os.path.join(os.curdir, path)
    for patience in range(_BUSY_TRIES, -1, -1):
        turn = _turn
        is_mine = turn.acquire(True, _TURN_SECONDS)
        try:
            if not is_mine:
                _renew_turn()
            _start(child, path, argv, environ, streams, stdin, own_session, kept_fds, is_hasty)
        except OSError as error:
            # The file is open for writing: it is tried again for a short time.
            if error.errno != errno.ETXTBSY or not patience:
                raise
        else:
            return
        finally:
            if is_mine:
                turn.release()
        child.end()
        time.sleep(_BUSY_SECONDS)


def _start(  # noqa: PLR0917 - the arguments of ``spawn``
    child: Child,
    path: str | None,
    argv: Sequence[str],
    environ: Mapping[bytes, bytes] | None,
    streams: tuple[int, int, int],
    stdin: bytes | None,
    own_session: bool,  # noqa: FBT001 - as in ``spawn``
    kept_fds: tuple[int, ...],
    is_hasty: bool,  # noqa: FBT001 - as in ``spawn``
) -> None:
    pipes: list[tuple[int, int]] = []
    theirs = [NO_FD]
    closing = closer(theirs)
    try:
        make_pipes(pipes, streams.count(PIPE))
        for number, wanted in enumerate(streams):
            if wanted != PIPE:
                theirs.append(duplicate(wanted))
                continue
            reader, writer = pipes.pop()
            child.fds[number] = reader if number else writer
            theirs.append(writer if number else reader)
        fds = theirs[1], theirs[2], theirs[3]
        if stdin is not None:
            os.write(child.fds[0], stdin)
            # First taken out: an interrupt in between must not close it twice.
            fed, child.fds[0] = child.fds[0], NO_FD
            theirs.append(fed)
        if not are_any_blocked():
            child.start(
                path, argv, environ, fds, own_session=own_session, kept_fds=kept_fds, is_hasty=is_hasty
            )
        else:
            with HeldSignals(), NothingBlocked():
                child.start(
                    path, argv, environ, fds, own_session=own_session, kept_fds=kept_fds, is_hasty=is_hasty
                )
    finally:
        if pipes:
            theirs.extend(chain.from_iterable(pipes))
        any(closing)


# Held by the thread that starts a program. Programs are started one after the other in any case, because the thread
# that starts one holds the interpreter's lock. Threads that wait here do not compete for that lock at each of the
# starting thread's system calls, which takes more time than the start itself. Nobody waits for long: a signal handler
# may run in the middle of a start, for any time, and may itself start programs or wait for those of other threads. A
# turn that is not given back, such as one that an interrupt takes away just when it is given, is replaced.
_turn = Lock()


def _renew_turn() -> None:
    """Replace a turn that was not given back in time, or that belongs to a thread of the parent process."""
    global _turn  # noqa: PLW0603 - replaced in one step
    _turn = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_turn)
