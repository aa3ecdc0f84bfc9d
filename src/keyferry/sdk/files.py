"""Files that hold a secret: read only if they are the user's alone, written whole and for the user alone."""

import os
import stat
from time import sleep

from keyferry._core.files import Folder, open_folder
from keyferry.errors import ProvideError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from types import TracebackType

    from keyferry._net.deadline import Deadline

__all__ = ["Lock", "read_bounded", "read_private", "write_private"]

_MOST_BYTES = 4 * 1024 * 1024
_OTHERS = 0o077
_PAUSE_SECONDS = 0.05
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def read_bounded(path: str, what: str, most_bytes: int = _MOST_BYTES) -> bytes:
    """The content of a file; raises ProvideError, which says *what* was to be read, and never quotes it."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or "its name cannot be used"
        raise ProvideError(f"{what} {path!r} cannot be read: {reason[:1].lower()}{reason[1:]}") from None
    if len(data) > most_bytes:
        raise ProvideError(f"{what} {path!r} is longer than {most_bytes} bytes")
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a named pipe that nobody writes to is empty, where one would otherwise wait for ever."""
    fd = os.open(path, flags | _AT_ONCE)
    os.set_blocking(fd, True)
    return fd


def read_private(path: str) -> bytes | None:
    """The content of a file of the user's own, or None: it is missing, unreadable, or open to others."""
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
        data = file.read(_MOST_BYTES + 1)
    return data if len(data) <= _MOST_BYTES else None


def write_private(path: str, data: bytes) -> bool:
    """Put *data* in place of a file at once, readable by the user alone, in a folder made for the user alone.

    Gives False where that cannot be done: a cache that cannot be written only costs time.
    """
    folder, name = os.path.split(path)
    try:
        with open_folder(folder, make=0o700) as opened:
            opened.replace(name, data, mode=0o600)
    except (OSError, ValueError):
        return False
    return True


class Lock:
    """A lock beside a file, for processes that share it; where it cannot be had in time, one works without.

    ``with Lock(path, deadline) as is_held``. The lock file stays: to remove it would let two in at once.
    """

    def __init__(self, path: str, deadline: "Deadline") -> None:
        self._path = f"{path}.lock"
        self._deadline = deadline
        self._fd = -1

    def __enter__(self) -> bool:
        folder, name = os.path.split(self._path)
        try:
            with open_folder(folder, make=0o700) as opened:
                return self._wait(opened, name)
        except (ImportError, OSError, ValueError):
            # No place for one, or a system without locks: waiting would not bring one.
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
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
