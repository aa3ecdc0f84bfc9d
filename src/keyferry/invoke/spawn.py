"""Start one program: streams of our choice, a session of its own, nothing inherited, and never lost from sight."""

import errno
import os
import time
from collections.abc import Callable, Mapping

from keyferry._core.popen import HeldSignals, popen
from keyferry.invoke.reap import kill_group

LAST_STANDARD_FD = 2
# For a stream of the program: a pipe, whose other end is ours; or nothing to read, nowhere to write.
PIPE, EMPTY = -1, -2
_BUSY_TRIES = 5
_BUSY_SECONDS = 0.02


class Child:
    """A program, from before its start to its end: its process id, 0 while there is none to end, and our pipes.

    It is made before the program is started, so that whoever is interrupted, whenever that is, knows what there
    is to end. *kill* ends a program that was not collected yet, and gives its status or None.
    """

    __slots__ = ("_kill", "fds", "pid", "status")

    def __init__(self, kill: Callable[[int], int | None] = kill_group) -> None:
        self._kill = kill
        self.pid = 0
        self.status: int | None = None
        # Our ends of the pipes for its three standard streams; -1 where there is none, or none any more.
        self.fds = [-1, -1, -1]

    def collected(self, status: int | None) -> None:
        """Note that the program has ended, and that its process id may be another's from now on."""
        self.status = status
        self.pid = 0

    def end(self) -> None:
        """End the program if it was not collected yet, and let go of its pipes; once done, it does nothing more."""
        try:
            if self.pid:
                self.collected(self._kill(self.pid))
        finally:
            for stream in range(len(self.fds)):
                self.close(stream)

    def close(self, stream: int) -> None:
        """Let go of our end of the pipe for a standard stream."""
        fd, self.fds[stream] = self.fds[stream], -1
        if fd >= 0:
            os.close(fd)


def spawn(
    child: Child,
    path: str,
    argv: tuple[str, ...],
    environ: Mapping[bytes, bytes],
    *,
    streams: tuple[int, int, int] = (PIPE, PIPE, PIPE),
    stdin: bytes | None = None,
    own_session: bool = True,
    kept_fds: tuple[int, ...] = (),
) -> None:
    """Start *path* as *child*, which the caller ends; raises OSError or ValueError if it cannot be started.

    A stream is PIPE, EMPTY or a descriptor of ours, and EMPTY if that is closed. *stdin* is all of the program's
    input, if one pipe takes it at once; without it the pipe stays open. *kept_fds* stay open in the program under
    their numbers, and nothing else does beyond its three streams. No signal is blocked in it, or ignored by our doing.
    """
    if not hasattr(os, "killpg"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))  # Windows: nothing could end what it starts
    theirs: list[int] = []
    with HeldSignals():
        try:
            for number, wanted in enumerate(streams):
                theirs.append(_open_pipe(child, number) if wanted == PIPE else _duplicate(wanted))
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
    path: str,
    argv: tuple[str, ...],
    environ: Mapping[bytes, bytes],
    streams: tuple[int, int, int],
    *,
    own_session: bool,
    kept_fds: tuple[int, ...],
) -> None:
    """Start it and note its process id; try again for a moment while the file is being written."""
    # A bare name is a file in the working directory, and not to be searched for.
    path = path if os.path.dirname(path) else os.path.join(os.curdir, path)
    for patience in range(_BUSY_TRIES, -1, -1):
        try:
            process = popen(argv, streams, environ, path=path, own_session=own_session, kept_fds=kept_fds)
        except OSError as error:
            if error.errno != errno.ETXTBSY or not patience:
                raise
            time.sleep(_BUSY_SECONDS)
        else:
            child.pid = process.pid
            process.returncode = 0  # it is collected here, and no business of its own any more
            return


def _open_pipe(child: Child, number: int) -> int:
    """Make the pipe for a standard stream, note our end of it, and give the other one."""
    reader, writer = map(move_up, os.pipe())
    child.fds[number], theirs = (writer, reader) if number == 0 else (reader, writer)
    return theirs


def move_up(fd: int) -> int:
    """*fd* under a number clear of the standard streams, which may be closed in a daemon."""
    if fd > LAST_STANDARD_FD:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LAST_STANDARD_FD + 1)
    os.close(fd)
    return moved


def _duplicate(fd: int) -> int:
    """A copy of *fd* clear of the standard streams; an empty device for EMPTY, or for one that is closed."""
    import fcntl

    if fd != EMPTY:
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LAST_STANDARD_FD + 1)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
    return move_up(os.open(os.devnull, os.O_RDWR))
