"""A lock that limits a folder of records to one writer among all processes, and a change counter for the readers.

The lock is a file of keyferry's own beside the kubelet's two folders; kubelets do not read it. It contains a number,
which is odd during a write, and a new even number after each change. Locks on single bytes far beyond its end mark the
images that are being pulled; the system releases them when the process ends.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Lock

from keyferry._core.files import open_folder
from keyferry.errors import Kind, RecordError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["FolderLock"]

NAME: Final = "keyferry.lock"
_FLAGS = os.O_RDWR | os.O_CREAT
_NUMBER = struct.Struct("<Q")
_PAUSE_SECONDS = 0.01
# The offset of the first byte that represents an image.
_FIRST_IMAGE = 1 << 32


def _ignore(_before: int) -> None:
    """Do nothing."""


class FolderLock:
    """The lock of one folder; safe to use from many threads and processes."""

    def __init__(
        self, folder: str, *, timeout_seconds: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = os.path.join(folder, NAME)
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
    def held(self, begin: Callable[[int], None] = _ignore) -> Iterator[None]:
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

    def hold_image(self, image: str) -> None:
        """Mark *image* as being pulled by this process, until it is released or the process ends."""
        _lock_byte(self._fd, _place_of(image), is_held=True)

    def release_image(self, image: str) -> None:
        """Remove the mark that *image* is being pulled by this process."""
        _lock_byte(self._fd, _place_of(image), is_held=False)

    def is_pulled_elsewhere(self, image: str) -> bool:
        """Return whether another running process pulls *image*."""
        return _is_byte_locked(self._fd, _place_of(image))

    def _open(self) -> int:
        try:
            with open_folder(self._root, self._name) as folder:
                return folder.open_own(NAME, _FLAGS)
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
                return folder.lock_file(NAME, waits=False)
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


def _place_of(image: str) -> int:
    digest = sha256(image.encode("utf-8", "surrogateescape")).digest()
    return _FIRST_IMAGE + int.from_bytes(digest[:7], "big")


def _lock_byte(fd: int, place: int, *, is_held: bool) -> None:
    """Lock or unlock one byte for this process; the locks are shared, so several processes can hold them."""
    import fcntl

    # Locks that belong to an open file exist on Linux only; elsewhere processes do not see each other's pulls.
    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is not None:
        fcntl.fcntl(fd, command, _request(fcntl.F_RDLCK if is_held else fcntl.F_UNLCK, place))


def _is_byte_locked(fd: int, place: int) -> bool:
    """Return whether another process has locked one byte."""
    import fcntl

    command = getattr(fcntl, "F_OFD_GETLK", None)
    if command is None:
        return False
    answer = fcntl.fcntl(fd, command, _request(fcntl.F_WRLCK, place))
    return bool(struct.unpack_from("h", answer)[0] != fcntl.F_UNLCK)


def _request(kind: int, place: int) -> bytes:
    # The fields of struct flock: type, whence, start, length, and the process id, which must be 0.
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)
