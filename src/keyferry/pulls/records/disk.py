"""The files of the records on the disk: durable writes, no trust in what others could have made, and the lock.

The lock limits a folder to one writer among all processes. It is a file of keyferry's own beside the kubelet's two
folders; kubelets do not read it. It contains a number, which is odd during a write, and a new even number after each
change. Locks on single bytes far beyond its end mark the images that are being pulled; the system releases them when
the process ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Lock

from keyferry._core.files import DistrustedError, Folder, open_folder
from keyferry._core.gotext import go_strerror
from keyferry._core.host_root import on_host
from keyferry.errors import Kind, RecordError

LOCK_NAME = "keyferry.lock"
# A record with a hundred names, each with a hundred secrets, is far smaller.
MAX_BYTES = 16 * 1024 * 1024
# The minimum size of a read, so that a growing file is not read byte by byte.
_LITTLE = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_AGAIN = "the image is verified again"
_NUMBER = struct.Struct("<Q")
_PAUSE_SECONDS = 0.01
# The offset of the first byte that represents an image.
_FIRST_IMAGE = 1 << 32


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
        folder = open_folder(on_host(root), make=make, durable=self._durable)
        folder.path = root
        return folder

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
    if found.st_size > MAX_BYTES:
        message = f"it has {found.st_size} bytes, expected at most {MAX_BYTES}; {_AGAIN}; remove it"
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
    left = MAX_BYTES + 1
    while left and (part := os.read(fd, min(left, max(size + 1, _LITTLE)))):
        parts.append(part)
        left -= len(part)
    if not left:
        raise RecordError(path, f"it has more than {MAX_BYTES} bytes; {_AGAIN}; remove it", kind=Kind.TRUST)
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


class FolderLock:
    """The lock of one folder; safe to use from many threads and processes."""

    def __init__(
        self, folder: str, *, timeout_seconds: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = os.path.join(folder, LOCK_NAME)
        self._root, self._name = os.path.split(os.path.normpath(folder))
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._mine = Lock()
        self._fd = self._open()

    def close(self) -> None:
        """Close the file, which releases every image that is held."""
        os.close(self._fd)

    def generation(self) -> int:
        """Return the number of the last change; it is odd during a change, and after one that was interrupted."""
        return _read_number(self._fd)

    @contextmanager
    def held(self, begin: Callable[[int], None] = lambda _: None) -> Iterator[None]:
        """Hold the lock; *begin* is called with the previous number.

        Raise RecordError if the lock cannot be acquired in time.
        """
        deadline = self._clock() + self._timeout_seconds
        if not self._mine.acquire(timeout=self._timeout_seconds):
            raise self._late()
        try:
            fd = self._acquire(deadline)
            try:
                before = _read_number(fd)
                begin(before)
                self._write_number(fd, before | 1)
                try:
                    yield
                finally:
                    self._write_number(fd, (before | 1) + 1)
            finally:
                os.close(fd)
        finally:
            self._mine.release()

    # Locks that belong to an open file exist on Linux only; elsewhere processes do not see each other's pulls.

    def hold_image(self, image: str) -> None:
        """Mark *image* as being pulled by this process, until it is released or the process ends."""
        # The locks are shared, so several processes can hold them.
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _byte_request(fcntl.F_RDLCK, image))

    def release_image(self, image: str) -> None:
        """Remove the mark that *image* is being pulled by this process."""
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _byte_request(fcntl.F_UNLCK, image))

    def is_pulled_elsewhere(self, image: str) -> bool:
        """Return whether another running process pulls *image*."""
        if not hasattr(fcntl, "F_OFD_GETLK"):
            return False
        answer = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _byte_request(fcntl.F_WRLCK, image))
        return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)

    def _open(self) -> int:
        try:
            with open_folder(self._root, self._name) as folder:
                return folder.open_own(LOCK_NAME, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise self._unusable(error) from None

    def _acquire(self, deadline: float) -> int:
        """Open and lock the file, and return its descriptor; raise RecordError after the deadline."""
        while True:
            fd = self._try()
            if fd is not None:
                return fd
            if self._clock() > deadline:
                raise self._late()
            time.sleep(_PAUSE_SECONDS)

    def _try(self) -> int | None:
        try:
            with open_folder(self._root, self._name) as folder:
                return folder.lock_file(LOCK_NAME, waits=False)
        except OSError as error:
            raise self._unusable(error) from None

    def _write_number(self, fd: int, number: int) -> None:
        try:
            # The first number is the first block of the file, for which a full disk has no place.
            os.pwrite(fd, _NUMBER.pack(number % (1 << 64)), 0)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> RecordError:
        return RecordError(str(error.filename or self.path), f"cannot use the lock: {error.strerror}")

    def _late(self) -> RecordError:
        message = f"another process has held the lock for {self._timeout_seconds:g} s; end it, or try again"
        return RecordError(self.path, message, kind=Kind.LOCKED)


def _read_number(fd: int) -> int:
    data = os.pread(fd, _NUMBER.size, 0)
    return int(_NUMBER.unpack(data)[0]) if len(data) == _NUMBER.size else 0


def _byte_request(kind: int, image: str) -> bytes:
    """Return a ``struct flock`` for the byte of *image*: type, whence, start, length, and the process id 0."""
    digest = sha256(image.encode("utf-8", "surrogateescape")).digest()
    place = _FIRST_IMAGE + int.from_bytes(digest[:7], "big")
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)


def stripe_count(max_parallel_pulls: int | None) -> int:
    """Return how many locks a kubelet shares among all images, from 1 to 31; keyferry has one for all of them."""
    return min(max(max_parallel_pulls or 0, 1), 31)


def stripe_of(key: str, stripes: int) -> int:
    """Return which of its locks a kubelet uses for a key: the 32-bit FNV-1 hash (not 1a), modulo *stripes*."""
    hashed = 2_166_136_261
    for byte in key.encode("utf-8", "surrogateescape"):
        hashed = (hashed * 16_777_619 & 0xFFFFFFFF) ^ byte
    return hashed % stripes
