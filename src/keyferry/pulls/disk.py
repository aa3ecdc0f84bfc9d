"""The file system as the records need it: durable steps, and no belief in files that others could have made."""

import errno
import os
import stat

from keyferry._gotext import go_strerror
from keyferry.errors import RecordError

__all__ = ["Disk"]

# A hundred names with a hundred secrets each stay far below it.
MOST_BYTES = 16 * 1024 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_AGAIN = "the image is verified again"


class Disk:
    """Real files; each method is one step that a crash can come before or after.

    ``durable=False`` leaves out the waits for the disk: what the kubelet itself does.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable

    def make_folder(self, path: str) -> None:
        """Make a folder of mode 0700 with all above it; one that is there and ours is closed to others."""
        if not os.path.isdir(path):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.stat(path)
        if found.st_mode & _OTHERS and found.st_uid == os.geteuid():
            os.chmod(path, 0o700)

    def create(self, path: str) -> int:
        """A new file of mode 0600, open for writing; it must not be there yet, not even as a link."""
        return os.open(path, _CREATE, 0o600)

    def write(self, fd: int, data: bytes) -> None:
        """Write all of *data*."""
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def sync(self, fd: int) -> None:
        """Wait until a file's content is on the disk."""
        if self._durable:
            os.fsync(fd)

    def rename(self, source: str, target: str) -> None:
        """Put a file in the place of another, in one step."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file; one that is not there is fine."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def sync_folder(self, path: str) -> None:
        """Wait until a folder's names are on the disk."""
        if not self._durable:
            return
        fd = os.open(path, _FOLDER)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def names(self, path: str, *, folders: bool = False) -> list[str]:
        """The names in a folder, in order, of files or of *folders*; none if it is not there."""
        try:
            with os.scandir(path) as entries:
                return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False) == folders)
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes | None:
        """A file's content, or None if it is not there; RecordError for one that somebody else could have made."""
        try:
            self._check_folder(os.path.dirname(path))
            fd = os.open(path, _READ)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(path, error) from None
        try:
            _check_file(path, os.fstat(fd))
            return _read_all(path, fd)
        except OSError as error:
            raise _unreadable(path, error) from None
        finally:
            os.close(fd)

    def _check_folder(self, path: str) -> None:
        found = os.stat(path)
        _check_owner(path, found.st_uid)
        if found.st_mode & _OTHERS_WRITE:
            raise _distrust(
                path, "others can write this folder, so anybody could have put records in it", "700"
            )


def _check_file(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise RecordError(path, f"it is not a regular file; {_AGAIN}; remove it", cause="trust")
    _check_owner(path, found.st_uid)
    if found.st_mode & _OTHERS:
        what = "write" if found.st_mode & _OTHERS_WRITE else "read"
        raise _distrust(path, f"others can {what} it (mode {stat.S_IMODE(found.st_mode):04o})", "600")
    if found.st_nlink > 1:
        message = f"it has {found.st_nlink} names (hard links), expected 1; {_AGAIN}; remove it"
        raise RecordError(path, message, cause="trust")
    if found.st_size > MOST_BYTES:
        message = f"it has {found.st_size} bytes, expected at most {MOST_BYTES}; {_AGAIN}; remove it"
        raise RecordError(path, message, cause="trust")


def _check_owner(path: str, uid: int) -> None:
    if uid not in (0, os.geteuid()):
        message = f"it belongs to user {uid}, expected root or user {os.geteuid()}; {_AGAIN}; remove it"
        raise RecordError(path, message, cause="trust")


def _distrust(path: str, why: str, mode: str) -> RecordError:
    return RecordError(
        path, f"{why}; {_AGAIN}; the kubelet itself does not look: chmod {mode}", cause="trust"
    )


def _read_all(path: str, fd: int) -> bytes:
    """All of it, and no more than a file of the records can have, however it grows while it is read."""
    parts = []
    left = MOST_BYTES + 1
    while left and (part := os.read(fd, left)):
        parts.append(part)
        left -= len(part)
    if not left:
        raise RecordError(path, f"it has more than {MOST_BYTES} bytes; {_AGAIN}; remove it", cause="trust")
    return b"".join(parts)


def _unreadable(path: str, error: OSError) -> RecordError:
    if error.errno == errno.ELOOP:
        return RecordError(
            path, f"it is a symbolic link, expected a file; {_AGAIN}; remove it", cause="trust"
        )
    text = f"open {path}: {go_strerror(error)}"
    return RecordError(path, f"it cannot be read: {go_strerror(error)}; {_AGAIN}", text)
