"""Files that hold a secret: read only if they are the user's alone, written whole and for the user alone."""

import os
from time import sleep

from keyferry.errors import ProvideError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from types import TracebackType

    from keyferry.sdk.deadline import Deadline

__all__ = ["Lock", "read_bounded", "read_private", "write_private"]

_MOST_BYTES = 4 * 1024 * 1024
_OTHERS = 0o077
_PAUSE_SECONDS = 0.05


def read_bounded(path: str, what: str, most_bytes: int = _MOST_BYTES) -> bytes:
    """The content of a file; raises ProvideError, which says *what* was to be read, and never quotes it."""
    try:
        with open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or "its name cannot be used"
        raise ProvideError(f"{what} {path!r} cannot be read: {reason[:1].lower()}{reason[1:]}") from None
    if len(data) > most_bytes:
        raise ProvideError(f"{what} {path!r} is longer than {most_bytes} bytes")
    return data


def read_private(path: str) -> bytes | None:
    """The content of a file of the user's own, or None: it is missing, unreadable, or open to others."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if hasattr(os, "getuid") and (status.st_mode & _OTHERS or status.st_uid != os.getuid()):
            return None
        data = file.read(_MOST_BYTES + 1)
    return data if len(data) <= _MOST_BYTES else None


def write_private(path: str, data: bytes) -> bool:
    """Put *data* in place of a file at once, readable by the user alone, in a folder made for the user alone.

    Gives False where that cannot be done: a cache that cannot be written only costs time.
    """
    folder = os.path.dirname(path) or "."
    temporary = f"{path}.{os.getpid()}.{os.urandom(6).hex()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (OSError, ValueError):
        return False
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
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
        try:
            import fcntl

            os.makedirs(os.path.dirname(self._path) or ".", mode=0o700, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except (ImportError, OSError):
            return False
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if self._deadline.seconds_left <= 0:
                    return False
                sleep(_PAUSE_SECONDS)
            else:
                return True

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
