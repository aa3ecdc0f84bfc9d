"""Where the records are: durable steps, and no belief in files that others could have made."""

import errno
import os
import stat

from keyferry._core.files import DistrustedError, Folder, open_folder
from keyferry._core.gotext import go_strerror
from keyferry.errors import Kind, RecordError

__all__ = ["Disk"]

# A hundred names with a hundred secrets each stay far below it.
MOST_BYTES = 16 * 1024 * 1024
# What is read at once of a file that seemed smaller: one that grows is not read byte by byte.
_LITTLE = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_AGAIN = "the image is verified again"


class Disk:
    """Real folders and files; each method is one step that a crash can come before or after.

    ``durable=False`` leaves out the waits for the disk: what the kubelet itself does.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable

    def make_folder(self, root: str, *names: str) -> Folder:
        """Open a folder below *root*; those that are missing are made, and what is ours is closed to others."""
        folder = self.open_root(root, make=0o700)
        for name in names:
            with folder:
                folder = folder.below(name, make=0o700)
                found = folder.status()
                if found.st_mode & _OTHERS and found.st_uid == os.geteuid():
                    folder.restrict(0o700)
        return folder

    def open_folder(self, root: str, *names: str) -> Folder | None:
        """Open a folder below *root*, or None if it is not there; OSError, also for a link or a stranger's folder."""
        try:
            return self.open_root(root).descend(*names)
        except FileNotFoundError:
            return None

    def open_root(self, root: str, *, make: int | None = None) -> Folder:
        """Open the folder that everything is below."""
        return open_folder(root, make=make, durable=self._durable)

    def read(self, folder: Folder, name: str) -> bytes | None:
        """A file's content, or None if it is not there; RecordError for one that somebody else could have made."""
        _check_folder(folder)
        try:
            fd = folder.open(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(folder.path_of(name), error) from None
        path = folder.path_of(name)
        try:
            found = os.fstat(fd)
            _check_file(path, found)
            return _read_all(path, fd, found.st_size)
        except OSError as error:
            raise unreadable(path, error) from None
        finally:
            os.close(fd)


def _check_folder(folder: Folder) -> None:
    found = folder.status()
    _check_owner(folder.path, found.st_uid)
    if found.st_mode & _OTHERS_WRITE:
        why = "others can write this folder, so anybody could have put records in it"
        raise _distrust(folder.path, why, "700")


def _check_file(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise RecordError(path, f"it is not a regular file; {_AGAIN}; remove it", kind=Kind.TRUST)
    _check_owner(path, found.st_uid)
    if found.st_mode & _OTHERS:
        what = "write" if found.st_mode & _OTHERS_WRITE else "read"
        raise _distrust(path, f"others can {what} it (mode {stat.S_IMODE(found.st_mode):04o})", "600")
    if found.st_nlink > 1:
        message = f"it has {found.st_nlink} names (hard links), expected 1; {_AGAIN}; remove it"
        raise RecordError(path, message, kind=Kind.TRUST)
    if found.st_size > MOST_BYTES:
        message = f"it has {found.st_size} bytes, expected at most {MOST_BYTES}; {_AGAIN}; remove it"
        raise RecordError(path, message, kind=Kind.TRUST)


def _check_owner(path: str, uid: int) -> None:
    if uid not in (0, os.geteuid()):
        message = f"it belongs to user {uid}, expected root or user {os.geteuid()}; {_AGAIN}; remove it"
        raise RecordError(path, message, kind=Kind.TRUST)


def _distrust(path: str, why: str, mode: str) -> RecordError:
    return RecordError(
        path, f"{why}; {_AGAIN}; the kubelet itself does not look: chmod {mode}", kind=Kind.TRUST
    )


def _read_all(path: str, fd: int, size: int) -> bytes:
    """All of it, and no more than a file of the records can have, however it grows while it is read."""
    parts = []
    left = MOST_BYTES + 1
    while left and (part := os.read(fd, min(left, max(size + 1, _LITTLE)))):
        parts.append(part)
        left -= len(part)
    if not left:
        raise RecordError(path, f"it has more than {MOST_BYTES} bytes; {_AGAIN}; remove it", kind=Kind.TRUST)
    return b"".join(parts)


def unreadable(path: str, error: OSError) -> RecordError:
    """What the system says of a file or folder that is to be read, as an error of ours."""
    if isinstance(error, DistrustedError):
        return RecordError(str(error.filename), f"{error.strerror}; {_AGAIN}", kind=Kind.TRUST)
    if error.errno == errno.ELOOP:
        return RecordError(
            path, f"it is a symbolic link, expected a file; {_AGAIN}; remove it", kind=Kind.TRUST
        )
    text = f"open {path}: {go_strerror(error)}"
    return RecordError(path, f"it cannot be read: {go_strerror(error)}; {_AGAIN}", text)
