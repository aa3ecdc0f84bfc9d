"""An OCI image layout: a folder of blobs by digest, and an index of images by name.

The layout stays consistent if the process is killed: a blob gets its final name after its content is on the disk and
its digest is verified, and an image is added to the index after all its blobs are stored. Symbolic links below the
folder are not followed, and folders that belong to other users are not used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from keyferry._core.files import Folder, open_folder
from keyferry._core.json import dumps, loads
from keyferry._core.values import Value
from keyferry.errors import DocumentError, EnvironmentProblem
from keyferry.pulls.manifest import Descriptor, Platform, hasher

Json = dict[str, object]

REF_NAME = "org.opencontainers.image.ref.name"
# The annotation that containerd and buildkit use for an image's full name.
IMAGE_NAME = "io.containerd.image.name"
_VERSION = "1.0.0"
_WORK, _BLOBS, _INDEX, _MARK, _LOCK = ".keyferry", "blobs", "index.json", "oci-layout", "lock"
_MAX_BYTES = 16 << 20
_PIECE = 1 << 20
# TLS delivers 16 KiB at a time, and to hash and write each of these alone takes as long as to decrypt it.
_BATCH = 1 << 17
_FILE_MODE, _FOLDER_MODE = 0o644, 0o777


class IndexEntry(Value):
    """An image to be added to the index: its manifest, its full name, and its preferred short name, the tag."""

    media_type: str
    digest: str
    size: int
    platform: Platform
    image: str
    tag: str


def empty_index() -> Json:
    """Return an index without images."""
    return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}


def read_index(content: bytes) -> Json | None:
    """Parse the content of an index file; return None if it is not an index."""
    try:
        document = loads(content)
    except DocumentError:
        return None
    manifests = document.get("manifests") if isinstance(document, dict) else None
    if not isinstance(manifests, list) or not all(isinstance(entry, dict) for entry in manifests):
        return None
    return document if isinstance(document, dict) else None


def add_entry(index: Json, entry: IndexEntry) -> tuple[Json, str]:
    """Return the index with *entry* in place of the entry with the same full name, and the new entry's short name.

    The short name is the tag, or the full name if the tag is empty or another image of the layout has it.
    """
    manifests = index.get("manifests")
    kept = [
        other
        for other in (manifests if isinstance(manifests, list) else [])
        if _annotation(other, IMAGE_NAME) != entry.image
    ]
    is_taken = not entry.tag or any(_annotation(other, REF_NAME) == entry.tag for other in kept)
    name = entry.image if is_taken else entry.tag
    return {**index, "manifests": [*kept, _to_document(entry, name)]}, name


def _to_document(entry: IndexEntry, name: str) -> Json:
    parts = {
        "architecture": entry.platform.architecture,
        "os": entry.platform.os,
        "variant": entry.platform.variant,
    }
    platform = {part: value for part, value in parts.items() if value}
    document: Json = {"mediaType": entry.media_type, "digest": entry.digest, "size": entry.size}
    if "os" in platform and "architecture" in platform:
        document["platform"] = platform
    return {**document, "annotations": {REF_NAME: name, IMAGE_NAME: entry.image}}


def _annotation(entry: Json, name: str) -> object:
    annotations = entry.get("annotations")
    return annotations.get(name) if isinstance(annotations, dict) else None


def draft_name(digest: str) -> str:
    """Return the name of a blob's file in the drafts folder, where it is until it is complete."""
    return digest.replace(":", "-")


class Layout:
    """The layout in a folder; several processes may write to it at once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Make an empty or missing folder a layout; raise EnvironmentProblem if it holds other files."""
        with _reporting(self.folder), open_folder(self.folder, make=_FOLDER_MODE) as top:
            if set(top.names()) - {_WORK, _BLOBS, _INDEX, _MARK} and not top.has(_MARK):
                raise EnvironmentProblem(
                    f"{self.folder}: is not an OCI layout and not empty; name an empty or a new folder"
                )
            with top.below(_WORK, make=_FOLDER_MODE) as work, _locked(work):
                _prepare_files(top, work)

    def drafts(self) -> Folder:
        """Open the folder of incomplete blobs; the caller closes it."""
        with _reporting(self.folder):
            return open_folder(self.folder, _WORK)

    def path_of(self, digest: str) -> str:
        """Return the path of a blob, for messages; *digest* must be valid."""
        algorithm, _, encoded = digest.partition(":")
        return os.path.join(self.folder, _BLOBS, algorithm, encoded)

    def has(self, blob: Descriptor) -> bool:
        """Return whether a blob is stored with the right size and digest."""
        with self._opened(blob.digest) as fd:
            return fd is not None and os.fstat(fd).st_size == blob.size and _digest(fd, blob) == blob.digest

    def size_of(self, digest: str) -> int | None:
        """Return the size of a stored blob in bytes, or None if there is none; the content is not read."""
        with _reporting(self.path_of(digest)):
            try:
                with self._blobs(digest) as folder:
                    found = folder.status_of(_encoded(digest))
            except FileNotFoundError:
                return None
            return found.st_size if stat.S_ISREG(found.st_mode) else None

    def bytes_of(self, blob: Descriptor) -> int:
        """Return how many bytes of *blob* are there, by the sizes of its file or its draft; nothing is read."""
        if self.size_of(blob.digest) == blob.size:
            return blob.size
        with _reporting(self.folder), self.drafts() as drafts:
            try:
                found = drafts.status_of(draft_name(blob.digest)).st_size
            except FileNotFoundError:
                return 0
        return found if found <= blob.size else 0

    def read(self, digest: str) -> bytes | None:
        """Return the content of a small blob, or None if it is not stored; the digest is not verified."""
        with self._opened(digest) as fd:
            return None if fd is None else _read_all(fd)

    def read_index(self) -> bytes | None:
        """Return the content of the index, or None if there is none."""
        with _reporting(os.path.join(self.folder, _INDEX)):
            try:
                with open_folder(self.folder) as top:
                    return _read(top, _INDEX)
            except FileNotFoundError:
                return None

    def remove(self, digest: str) -> None:
        """Remove a damaged blob; the caller must hold the lock of its draft, and fetch the blob again."""
        with _reporting(self.path_of(digest)), self._blobs(digest, make=_FOLDER_MODE) as folder:
            folder.unlink(_encoded(digest))

    def adopt(self, drafts: Folder, digest: str) -> None:
        """Rename a complete draft, whose content is on the disk, to its blob."""
        with _reporting(self.path_of(digest)), self._blobs(digest, make=_FOLDER_MODE) as folder:
            drafts.rename(draft_name(digest), _encoded(digest), folder)

    def put(self, content: bytes, digest: str) -> None:
        """Store a small blob; *digest* must be that of *content*."""
        with (
            _reporting(self.path_of(digest)),
            self._blobs(digest, make=_FOLDER_MODE) as folder,
            self.drafts() as work,
        ):
            folder.replace(_encoded(digest), content, mode=_FILE_MODE, drafts=work)

    def add(self, entry: IndexEntry) -> str:
        """Add an image whose blobs are all stored to the index, and return its name there."""
        path = os.path.join(self.folder, _INDEX)
        with _reporting(path), open_folder(self.folder) as top, top.below(_WORK) as work, _locked(work):
            _sync_blobs(top)
            index = read_index(_read(top, _INDEX))
            if index is None:
                raise EnvironmentProblem(f"{path}: is not the index of an OCI layout; nothing was changed")
            changed, name = add_entry(index, entry)
            top.replace(_INDEX, dumps(changed).encode(), mode=_FILE_MODE, drafts=work)
            return name

    def _blobs(self, digest: str, *, make: int | None = None) -> Folder:
        """Open the folder of a blob."""
        return open_folder(self.folder, _BLOBS, digest.partition(":")[0], make=make)

    @contextmanager
    def _opened(self, digest: str) -> Iterator[int | None]:
        """Open a blob's file for reading; yield None if it does not exist or is not a regular file."""
        fd = None
        with _reporting(self.path_of(digest)):
            try:
                with self._blobs(digest) as folder:
                    fd = folder.open(_encoded(digest))
            except FileNotFoundError:
                pass
            try:
                yield fd if fd is not None and stat.S_ISREG(os.fstat(fd).st_mode) else None
            finally:
                if fd is not None:
                    os.close(fd)


class Draft:
    """The file of one partly fetched blob; *size* is the number of bytes that are written and hashed."""

    def __init__(self, folder: Folder, blob: Descriptor) -> None:
        self._folder = folder
        self._name = draft_name(blob.digest)
        try:
            self._fd = folder.open_own(self._name, os.O_RDWR | os.O_CREAT, _FILE_MODE)
        except OSError as error:
            raise EnvironmentProblem(f"{error.filename}: {error.strerror}") from None
        self._blob = blob
        self._digest = hasher(blob.digest)
        # What is not written yet; the size counts it.
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.size = 0

    def lock(self) -> bool:
        """Lock the file; return False if another process has locked it, or has renamed it in the meantime."""
        try:
            return self._folder.lock(self._fd, self._name, waits=False)
        except OSError as error:
            raise EnvironmentProblem(f"{error.filename}: cannot be locked: {error.strerror}") from None

    def resume(self) -> None:
        """Hash the content that an earlier pull has left; discard it if it is longer than the blob."""
        if os.fstat(self._fd).st_size > self._blob.size:
            self.restart()
        while piece := os.pread(self._fd, _PIECE, self.size):
            self._digest.update(piece)
            self.size += len(piece)

    def restart(self) -> None:
        """Discard the content."""
        os.ftruncate(self._fd, 0)
        self._digest = hasher(self._blob.digest)
        self._held, self._held_bytes = [], 0
        self.size = 0

    def write(self, piece: bytes) -> None:
        """Append *piece*; it is written with others after it, or by `flush`."""
        self._held.append(piece)
        self._held_bytes += len(piece)
        self.size += len(piece)
        if self._held_bytes >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        batch, at = b"".join(self._held), self.size - self._held_bytes
        self._held, self._held_bytes = [], 0
        self._digest.update(batch)
        while batch:
            written = os.pwrite(self._fd, batch, at)
            batch, at = batch[written:], at + written

    def is_complete(self) -> bool:
        """Return whether the content has the size and the digest of the blob."""
        self.flush()
        is_whole = self.size == self._blob.size == os.fstat(self._fd).st_size
        return is_whole and self._blob.digest.endswith(f":{self._digest.hexdigest()}")

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        # Once for each blob, before it gets its final name. A single sync of all blobs before the image is added to the
        # index would protect the index, but not the blobs: their names could reach the disk before their content, and
        # other tools trust a file in blobs/ by its name, whether it is in the index or not. syncfs would also wait for
        # all other writes to this file system.
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file, which unlocks it; the file remains, for a later pull to go on with."""
        try:
            self.flush()
        except OSError:
            pass  # what is lost is fetched again
        finally:
            os.close(self._fd)


def _prepare_files(top: Folder, work: Folder) -> None:
    if not top.has(_MARK):
        mark = dumps({"imageLayoutVersion": _VERSION}).encode()
        top.replace(_MARK, mark, mode=_FILE_MODE, drafts=work)
    elif not _is_version(_read(top, _MARK)):
        raise EnvironmentProblem(
            f"{top.path_of(_MARK)}: is not the mark of an OCI layout of version {_VERSION}"
        )
    if not top.has(_INDEX):
        top.replace(_INDEX, dumps(empty_index()).encode(), mode=_FILE_MODE, drafts=work)


def _sync_blobs(top: Folder) -> None:
    with top.below(_BLOBS) as blobs:
        for algorithm in blobs.names(folders=True):
            with blobs.below(algorithm) as folder:
                folder.sync()


@contextmanager
def _locked(work: Folder) -> Iterator[None]:
    while (fd := work.lock_file(_LOCK, _FILE_MODE, waits=True)) is None:
        pass
    try:
        yield
    finally:
        os.close(fd)


@contextmanager
def _reporting(path: str) -> Iterator[None]:
    """Turn an OSError into an EnvironmentProblem that names the path."""
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(f"{error.filename or path}: {error.strerror or error}") from None


def _encoded(digest: str) -> str:
    return digest.partition(":")[2]


def _digest(fd: int, like: Descriptor) -> str:
    digest = hasher(like.digest)
    while piece := os.read(fd, _PIECE):
        digest.update(piece)
    return f"{like.digest.partition(':')[0]}:{digest.hexdigest()}"


def _read(folder: Folder, name: str) -> bytes:
    fd = folder.open(name)
    try:
        return _read_all(fd)
    finally:
        os.close(fd)


def _read_all(fd: int) -> bytes:
    with os.fdopen(fd, "rb", closefd=False) as stream:
        return stream.read(_MAX_BYTES)


def _is_version(content: bytes) -> bool:
    try:
        document = loads(content)
    except DocumentError:
        return False
    return isinstance(document, dict) and document.get("imageLayoutVersion") == _VERSION
