"""Files that hold a secret: read only if no other user can read them, and written atomically for the user alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from time import sleep
from types import TracebackType

from keyferry._core.files import Folder, open_folder
from keyferry._core.gotext import go_strerror
from keyferry._net.deadline import Deadline
from keyferry.errors import ProvideError

__all__ = ["Lock", "read_bounded", "read_private", "write_private"]

_MAX_BYTES = 4 * 1024 * 1024
_OTHERS = 0o077
_PAUSE_SECONDS = 0.05
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def read_bounded(
    path: str,
    what: str,
    most_bytes: int = _MAX_BYTES,
    *,
    check: Callable[[os.stat_result], None] | None = None,
) -> bytes:
    """Return the content of a file; raise ProvideError, which names *what* the file is and never quotes it.

    *check* gets the status of the open file, and can raise an error of its own before anything is read.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if check is not None:
                check(os.fstat(file.fileno()))
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = go_strerror(error) if isinstance(error, OSError) else "its name is invalid"
        raise ProvideError(f"{what} {path!r} cannot be read: {reason}") from None
    if len(data) > most_bytes:
        raise ProvideError(f"{what} {path!r} is longer than {most_bytes} bytes")
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a named pipe without a writer reads as empty instead of blocking."""
    fd = os.open(path, flags | _AT_ONCE)
    os.set_blocking(fd, True)
    return fd


def read_private(path: str) -> bytes | None:
    """Return the content of the user's own file; None if it is missing, unreadable, or readable by others."""
    folder, name = os.path.split(path)
    try:
        with open_folder(folder) as opened:
            fd = opened.open(name)
    except (OSError, ValueError):
        return None
    try:
        return _read_own(fd)
    except OSError:
        return None
    finally:
        os.close(fd)


def _read_own(fd: int) -> bytes | None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return None
    if hasattr(os, "getuid") and (status.st_mode & _OTHERS or status.st_uid != os.getuid()):
        return None
    with open(fd, "rb", closefd=False) as file:
        data = file.read(_MAX_BYTES + 1)
    return data if len(data) <= _MAX_BYTES else None


def write_private(path: str, data: bytes) -> bool:
    """Replace a file atomically; file and new folders are accessible to the user alone.

    Returns False if that fails: a cache that cannot be written only costs time.
    """
    folder, name = os.path.split(path)
    try:
        with open_folder(folder, make=0o700) as opened:
            opened.replace(name, data, mode=0o600)
    except (OSError, ValueError):
        return False
    return True


class Lock:
    """A lock beside a file, for processes that share it; without the lock in time, the block runs unlocked.

    Use it as ``with Lock(path, deadline) as is_held``. The lock file is not removed, because then two processes could
    hold the lock at once.
    """

    def __init__(self, path: str, deadline: Deadline) -> None:
        self._path = f"{path}.lock"
        self._deadline = deadline
        self._fd = -1

    def __enter__(self) -> bool:
        folder, name = os.path.split(self._path)
        try:
            with open_folder(folder, make=0o700) as opened:
                return self._wait(opened, name)
        except (ImportError, OSError, ValueError):
            # The lock file cannot be created, or the system has no locks: waiting would not help.
            return False

    def _wait(self, folder: Folder, name: str) -> bool:
        while (fd := folder.lock_file(name, waits=False)) is None:
            left = self._deadline.seconds_left
            if left <= 0:
                return False
            sleep(min(_PAUSE_SECONDS, left))
        self._fd = fd
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
