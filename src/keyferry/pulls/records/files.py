"""The kubelet's two folders of pull records: ``image_manager/pulling`` and ``image_manager/pulled``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter

from keyferry._core.files import DistrustedError, Folder
from keyferry._core.gotext import go_strerror, quote
from keyferry._core.type_forms import T
from keyferry.api.kubeletconfig.records import (
    INTENT,
    RECORD,
    ImagePulledRecord,
    ImagePullIntent,
    encode_intent,
    encode_record,
)
from keyferry.errors import Kind, RecordError
from keyferry.pulls.records.codec import Decoded, decode_intent, decode_record
from keyferry.pulls.records.disk import Disk, unreadable
from keyferry.pulls.records.folder_lock import FolderLock
from keyferry.pulls.records.hashes import PREFIX, file_name
from keyferry.pulls.records.lookups import Listed, Listing, RecordLookup

__all__ = ["RecordFiles"]

FOLDER, PULLING, PULLED = "image_manager", "pulling", "pulled"
_TEMPORARY = ".tmp"
# The kubelet ignores files with its own suffix for temporary files. This infix distinguishes those of keyferry.
_OURS = ".keyferry-"


class RecordFiles:
    """Intents and records as files, with the kubelet's names, bytes and modes; every lookup reads the disk.

    Nothing is made or changed before :meth:`prepare`. Changes are allowed only inside ``with files.writing():``.
    """

    def __init__(self, root: str, disk: Disk | None = None) -> None:
        self.root = root
        self.folder = os.path.join(root, FOLDER)
        self.pulled = os.path.join(self.folder, PULLED)
        self._disk = disk or Disk()
        self._lock: FolderLock | None = None

    @property
    def lock(self) -> FolderLock:
        """The lock that processes share; opened on first use."""
        if self._lock is None:
            self._lock = FolderLock(self.folder)
        return self._lock

    def close(self) -> None:
        """Close the lock's file."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def writing(self, begin: Callable[[int], None] = lambda _: None) -> Iterator[None]:
        """Hold the lock, so that no other thread or process of keyferry changes the files."""
        with self.lock.held(begin):
            yield

    def prepare(self) -> None:
        """Make the folders, and rewrite files of older versions."""
        self.make_folders()
        with self.writing():
            self.renew()

    def make_folders(self) -> None:
        """Make the folders; restrict existing ones of the user to the user."""
        with _wording(self.folder, "cannot make the folders"):
            for name in (PULLING, PULLED):
                self._disk.make_folder(self.root, FOLDER, name).close()

    def renew(self) -> tuple[Listing[ImagePullIntent], Listing[ImagePulledRecord]]:
        """Remove temporary files that a crash left, rewrite files of older versions, and return all files.

        Unreadable files are not changed. Call this inside ``writing``.
        """
        self._sweep()
        intents, records = self.list_intents(), self.list_records()
        for intent in intents.outdated:
            self.write_intent(intent.image)
        for record in records.outdated:
            self.write_record(record)
        if intents.outdated or records.outdated:
            return self.list_intents(), self.list_records()
        return intents, records

    def list_intents(self) -> Listing[ImagePullIntent]:
        """Return every intent, and the problems of files that could not be read."""
        return self._list(PULLING, INTENT, decode_intent, attrgetter("image"))

    def list_records(self) -> Listing[ImagePulledRecord]:
        """Return every record, and the problems of files that could not be read."""
        return self._list(PULLED, RECORD, decode_record, attrgetter("image_ref"))

    def intent_exists(self, image: str) -> bool:
        """Return whether there is an intent for *image*; raise RecordError if its file cannot be trusted."""
        decoded = self._find(PULLING, image, decode_intent)
        return decoded is not None and decoded.value.image == image

    def find_record(self, image_ref: str) -> RecordLookup:
        """Return the lookup of a reference: a record, none, or a problem."""
        try:
            decoded = self._find(PULLED, image_ref, decode_record)
        except RecordError as error:
            return RecordLookup(problem=error)
        if decoded is None:
            return RecordLookup()
        if decoded.value.image_ref != image_ref:
            message = f"it is a record of {decoded.value.image_ref!r}, expected {image_ref!r}; remove it"
            problem = RecordError(self.record_path(image_ref), message, kind=Kind.FOREIGN)
            return RecordLookup(problem=problem)
        return RecordLookup(record=decoded.value)

    def write_intent(self, image: str) -> None:
        """Write an intent durably."""
        self._write(PULLING, image, encode_intent(ImagePullIntent(image=image)))

    def write_record(self, record: ImagePulledRecord) -> None:
        """Write a record durably."""
        self._write(PULLED, record.image_ref, encode_record(record))

    def delete_intent(self, image: str) -> None:
        """Remove an intent; an intent that does not exist is ignored."""
        self._delete(PULLING, image)

    def delete_record(self, image_ref: str) -> None:
        """Remove a record; a record that does not exist is ignored."""
        self._delete(PULLED, image_ref)

    def record_path(self, image_ref: str) -> str:
        """Return the path of the record of a reference."""
        return os.path.join(self.pulled, file_name(image_ref))

    def count(self) -> tuple[int, int]:
        """Return the numbers of intent files and record files, readable or not."""
        counts = []
        for which in (PULLING, PULLED):
            with self._opened(which) as folder:
                counts.append(0 if folder is None else len(_names(folder)))
        return counts[0], counts[1]

    def _open(self, which: str) -> Folder | None:
        """Open one of the two folders; return None if it does not exist."""
        return self._disk.open_folder(self.root, FOLDER, which)

    @contextmanager
    def _opened(self, which: str) -> Iterator[Folder | None]:
        """Open one of the two folders to list its files; yield None if it does not exist."""
        path = os.path.join(self.folder, which)
        try:
            folder = self._open(which)
        except OSError as error:
            raise unreadable(path, error) from None
        if folder is None:
            yield None
            return
        with folder, _wording(path, "cannot read the folder"):
            yield folder

    def _list(
        self,
        which: str,
        kind: str,
        decode: Callable[[bytes, str], Decoded[T]],
        key_of: Callable[[T], str],
    ) -> Listing[T]:
        with self._opened(which) as folder:
            if folder is None:
                return Listing()
            return self._sort(folder, kind, decode, key_of)

    def _sort(
        self,
        folder: Folder,
        kind: str,
        decode: Callable[[bytes, str], Decoded[T]],
        key_of: Callable[[T], str],
    ) -> Listing[T]:
        entries: list[Listed[T]] = []
        problems: list[RecordError] = []
        for name, found in self._decode_all(folder, kind, decode):
            if isinstance(found, RecordError):
                problems.append(found)
                continue
            key = key_of(found.value)
            stray = None if name == file_name(key) else _misplaced(folder.path_of(name), key)
            entries.append(Listed(found.value, key, stray, is_current=found.is_current))
        return Listing(
            entries,
            tuple(problems),
            # An intent in a file of any name is safe to believe, because it only causes more verification. A record
            # grants access.
            believes_strays=kind == INTENT,
            is_obstructed=bool(_names(folder, folders=True)),
        )

    def _decode_all(
        self, folder: Folder, kind: str, decode: Callable[[bytes, str], Decoded[T]]
    ) -> Iterator[tuple[str, Decoded[T] | RecordError]]:
        for name in _names(folder):
            path = folder.path_of(name)
            try:
                decoded = self._read(folder, name, decode)
            except RecordError as error:
                text = f"failed to deserialize content of file {quote(path)} into {kind}: {error.kubernetes_text}"
                yield name, RecordError(path, error.message, text, error.kind, error.document_kind)
            else:
                if decoded is not None:
                    yield name, decoded

    def _find(self, which: str, key: str, decode: Callable[[bytes, str], Decoded[T]]) -> Decoded[T] | None:
        try:
            folder = self._open(which)
            if folder is None:
                return None
            with folder:
                return self._read(folder, file_name(key), decode)
        except OSError as error:
            raise unreadable(os.path.join(self.folder, which), error) from None

    def _read(
        self, folder: Folder, name: str, decode: Callable[[bytes, str], Decoded[T]]
    ) -> Decoded[T] | None:
        data = self._disk.read(folder, name)
        return None if data is None else decode(data, folder.path_of(name))

    def _write(self, which: str, key: str, data: bytes) -> None:
        name = file_name(key)
        draft = f"{name}{_OURS}{os.urandom(8).hex()}{_TEMPORARY}"
        with (
            _wording(os.path.join(self.folder, which, name), "cannot write the file"),
            self._disk.make_folder(self.root, FOLDER, which) as folder,
        ):
            folder.replace(name, data, mode=0o600, draft=draft)

    def _delete(self, which: str, key: str) -> None:
        name = file_name(key)
        with _wording(os.path.join(self.folder, which, name), "cannot remove the file"):
            folder = self._open(which)
            if folder is not None:
                with folder:
                    folder.unlink(name)
                    folder.sync()

    def _sweep(self) -> None:
        """Remove the temporary files of processes that have ended; while the lock is held there are no others."""
        for which in (PULLING, PULLED):
            with self._opened(which) as folder:
                for name in () if folder is None else folder.names(folders=False):
                    if folder is not None and _OURS in name and name.endswith(_TEMPORARY):
                        folder.unlink(name)


def _names(folder: Folder, *, folders: bool = False) -> list[str]:
    names = folder.names(folders=folders)
    return [name for name in names if name.startswith(PREFIX) and not name.endswith(_TEMPORARY)]


def _misplaced(path: str, key: str) -> RecordError:
    message = f"it is about {key!r}, whose file name is {file_name(key)}; it is not trusted; remove it"
    return RecordError(path, message, kind=Kind.MISPLACED)


@contextmanager
def _wording(path: str, what: str) -> Iterator[None]:
    """Turn an OSError into a RecordError whose message begins with *what*."""
    try:
        yield
    except DistrustedError as error:
        raise RecordError(str(error.filename), f"{what}: {error.strerror}", kind=Kind.TRUST) from None
    except OSError as error:
        message = f"{what}: {go_strerror(error)}"
        raise RecordError(path, message, f"{path}: {go_strerror(error)}") from None
