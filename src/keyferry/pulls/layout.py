"""An OCI image layout: a folder of blobs by digest, and an index of images by name.

Whatever happens to the process, what is in it is whole: a blob gets its name when all of it is on the disk and its
digest is right, and an image gets into the index when all of its blobs are there.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock

from keyferry._json import dumps, loads
from keyferry.errors import DocumentError, EnvironmentProblem
from keyferry.pulls.layout_index import Entry, add_entry, empty_index, read_index
from keyferry.pulls.manifest import Descriptor, hasher

__all__ = ["Layout"]

_VERSION = "1.0.0"
_WORK = ".keyferry"
_MOST_BYTES = 16 << 20
_PIECE = 1 << 20
_MODE = 0o644
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Layout:
    """The layout in a folder; several processes may write to it at once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._index = os.path.join(folder, "index.json")
        self._version = os.path.join(folder, "oci-layout")

    def prepare(self) -> None:
        """Make the folder a layout, if it is empty; raises EnvironmentProblem if it holds something else."""
        with _reporting(self.folder):
            os.makedirs(self.folder, exist_ok=True)
            strangers = set(os.listdir(self.folder)) - {_WORK, "blobs", "index.json", "oci-layout"}
            if strangers and not os.path.exists(self._version):
                raise EnvironmentProblem(
                    f"{self.folder}: is no OCI layout and not empty; name an empty or a new folder"
                )
            os.makedirs(os.path.join(self.folder, _WORK), exist_ok=True)
            with self._locked():
                self._prepare_files()

    def _prepare_files(self) -> None:
        if not os.path.lexists(self._version):
            self._replace(self._version, dumps({"imageLayoutVersion": _VERSION}).encode())
        elif not _is_version(_read(self._version)):
            raise EnvironmentProblem(f"{self._version}: is not of an OCI layout of version {_VERSION}")
        if not os.path.lexists(self._index):
            self._replace(self._index, dumps(empty_index()).encode())

    def path_of(self, digest: str) -> str:
        """Where a blob is, or would be; its digest has been checked."""
        algorithm, _, encoded = digest.partition(":")
        return os.path.join(self.folder, "blobs", algorithm, encoded)

    def draft_of(self, digest: str) -> str:
        """Where a blob is until it is whole."""
        return os.path.join(self.folder, _WORK, digest.replace(":", "-"))

    def has(self, blob: Descriptor) -> bool:
        """Tell whether a blob is there, by its size and digest; one that is not right is removed."""
        path = self.path_of(blob.digest)
        with _reporting(path):
            try:
                fd = os.open(path, _READ)
            except FileNotFoundError:
                return False
            try:
                found = os.fstat(fd)
                if stat.S_ISREG(found.st_mode) and found.st_size == blob.size:
                    digest = hasher(blob.digest)
                    while piece := os.read(fd, _PIECE):
                        digest.update(piece)
                    if blob.digest.endswith(f":{digest.hexdigest()}"):
                        return True
            finally:
                os.close(fd)
            os.unlink(path)
            return False

    def adopt(self, draft: str, digest: str) -> None:
        """Give a draft, all of which is on the disk, the name of a blob."""
        path = self.path_of(digest)
        with _reporting(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.replace(draft, path)

    def put(self, content: bytes, digest: str) -> None:
        """Store a small blob whose digest has been verified."""
        path = self.path_of(digest)
        with _reporting(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._replace(path, content)

    def add(self, entry: Entry) -> str:
        """Put an image whose blobs are all there into the index; gives the name that tools know it by."""
        with _reporting(self._index), self._locked():
            for algorithm in os.listdir(os.path.join(self.folder, "blobs")):
                _sync(os.path.join(self.folder, "blobs", algorithm))
            index = read_index(_read(self._index))
            if index is None:
                raise EnvironmentProblem(
                    f"{self._index}: is not the index of an OCI layout; nothing was changed"
                )
            changed, name = add_entry(index, entry)
            self._replace(self._index, dumps(changed).encode())
            return name

    def _replace(self, path: str, content: bytes) -> None:
        """Write a file so that it is there with all of its content, or as it was before."""
        draft = os.path.join(
            self.folder, _WORK, f"{os.path.basename(path)}.{os.getpid()}.{os.urandom(4).hex()}"
        )
        fd = os.open(draft, _DRAFT, _MODE)
        try:
            with os.fdopen(fd, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(fd)
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
        _sync(os.path.dirname(path))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(os.path.join(self.folder, _WORK, "lock"), _LOCK, _MODE)
        try:
            flock(fd, LOCK_EX)
            yield
        finally:
            os.close(fd)


@contextmanager
def _reporting(path: str) -> Iterator[None]:
    """Turn what the system says into an error that names the place."""
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(f"{error.filename or path}: {error.strerror or error}") from None


def _read(path: str) -> bytes:
    fd = os.open(path, _READ)
    with os.fdopen(fd, "rb") as stream:
        return stream.read(_MOST_BYTES)


def _is_version(content: bytes) -> bool:
    try:
        document = loads(content)
    except DocumentError:
        return False
    return isinstance(document, dict) and document.get("imageLayoutVersion") == _VERSION


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
