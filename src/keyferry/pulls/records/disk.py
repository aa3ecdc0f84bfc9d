"""Access to the files of the records: durable writes, and no trust in files that other users could have made."""

from __future__ import annotations

import errno
import os
import stat

from keyferry._core.files import DistrustedError, Folder, open_folder
from keyferry._core.gotext import go_strerror
from keyferry.errors import Kind, RecordError

__all__ = ["Disk"]

# A record with a hundred names, each with a hundred secrets, is far smaller.
MOST_BYTES = 16 * 1024 * 1024
# The minimum size of a read, so that a growing file is not read byte by byte.
_LITTLE = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_AGAIN = "the image is verified again"


class Disk:
    """Access to folders and files; each method is one step, and a crash can happen between two steps.

    ``durable=False`` omits the waits for the disk, as the kubelet does.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable

    def make_folder(self, root: str, *names: str) -> Folder:
        """Open a folder below *root*; make missing ones, and restrict the user's own folders to the user."""
        folder = self.open_root(root, make=0o700)
        for name in names:
            with folder:
                folder = folder.below(name, make=0o700)
                found = folder.status()
                if found.st_mode & _OTHERS and found.st_uid == os.geteuid():
                    folder.restrict(0o700)
        return folder

    def open_folder(self, root: str, *names: str) -> Folder | None:
        """Open a folder below *root*; return None if it does not exist.

        Raise OSError, also for a symbolic link or a folder of another user.
        """
        try:
            return self.open_root(root).descend(*names)
        except FileNotFoundError:
            return None

    def open_root(self, root: str, *, make: int | None = None) -> Folder:
        """Open the root folder."""
        return open_folder(root, make=make, durable=self._durable)

    def read(self, folder: Folder, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist.

        Raise RecordError if it cannot be read, or if another user could have made or changed it.
        """
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
        why = "other users can write to this folder, so its records cannot be trusted"
        raise _distrust(folder.path, why, "700")


def _check_file(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise RecordError(path, f"it is not a regular file; {_AGAIN}; remove it", kind=Kind.TRUST)
    _check_owner(path, found.st_uid)
    if found.st_mode & _OTHERS:
        what = "write" if found.st_mode & _OTHERS_WRITE else "read"
        raise _distrust(path, f"other users can {what} it (mode {stat.S_IMODE(found.st_mode):04o})", "600")
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
        path, f"{why}; {_AGAIN}; the kubelet does not check this; run chmod {mode}", kind=Kind.TRUST
    )


def _read_all(path: str, fd: int, size: int) -> bytes:
    """Return the content of a file; raise RecordError if it is too long, also if it grows while it is read."""
    parts = []
    left = MOST_BYTES + 1
    while left and (part := os.read(fd, min(left, max(size + 1, _LITTLE)))):
        parts.append(part)
        left -= len(part)
    if not left:
        raise RecordError(path, f"it has more than {MOST_BYTES} bytes; {_AGAIN}; remove it", kind=Kind.TRUST)
    return b"".join(parts)


def unreadable(path: str, error: OSError) -> RecordError:
    """Return the RecordError for an OSError of a file or folder that was to be read."""
    if isinstance(error, DistrustedError):
        return RecordError(str(error.filename), f"{error.strerror}; {_AGAIN}", kind=Kind.TRUST)
    if error.errno == errno.ELOOP:
        return RecordError(
            path, f"it is a symbolic link, expected a file; {_AGAIN}; remove it", kind=Kind.TRUST
        )
    text = f"open {path}: {go_strerror(error)}"
    return RecordError(path, f"it cannot be read: {go_strerror(error)}; {_AGAIN}", text)
