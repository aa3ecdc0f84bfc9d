"""The kubelet's two folders of pull records: ``image_manager/pulling`` and ``image_manager/pulled``."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from secrets import token_hex
from typing import TypeVar

from keyferry._gotext import go_strerror, quote
from keyferry.api.kubeletconfig.records import (
    INTENT,
    RECORD,
    ImagePulledRecord,
    ImagePullIntent,
    encode_intent,
    encode_record,
)
from keyferry.errors import RecordError
from keyferry.pulls.disk import Disk
from keyferry.pulls.folder_lock import FolderLock
from keyferry.pulls.hashes import PREFIX, file_name
from keyferry.pulls.lookups import Listing, RecordLookup
from keyferry.pulls.record_codec import Decoded, decode_intent, decode_record

__all__ = ["RecordFiles"]

FOLDER, PULLING, PULLED = "image_manager", "pulling", "pulled"
_TEMPORARY = ".tmp"
# Ours end as the kubelet's do, which it passes over; this is what tells them apart.
_OURS = ".keyferry-"
_T = TypeVar("_T")


class RecordFiles:
    """Intents and records as files, with the kubelet's names, bytes and modes; every look goes to the disk.

    Nothing is made or changed before :meth:`prepare`. Changes are for inside ``with files.writing():``.
    """

    def __init__(self, root: str, disk: Disk | None = None, *, lock_timeout_seconds: float = 30.0) -> None:
        self.folder = os.path.join(root, FOLDER)
        self.pulling = os.path.join(self.folder, PULLING)
        self.pulled = os.path.join(self.folder, PULLED)
        self._disk = disk or Disk()
        self._lock_timeout_seconds = lock_timeout_seconds
        self._lock: FolderLock | None = None

    @property
    def lock(self) -> FolderLock:
        """The lock that processes share; made when it is first needed."""
        if self._lock is None:
            self._lock = FolderLock(self.folder, timeout_seconds=self._lock_timeout_seconds)
        return self._lock

    def close(self) -> None:
        """Let go of the lock's file."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def writing(self, begin: Callable[[int], None] = lambda _: None) -> Iterator[None]:
        """Keep all other writers out; what is read inside stays true until the end."""
        with self.lock.held(begin):
            yield

    def prepare(self) -> None:
        """Make the folders, and bring what is in them up to date."""
        self.make_folders()
        with self.writing():
            self.renew()

    def make_folders(self) -> None:
        """Make the folders, or close those that are there to others."""
        with _wording(self.folder, "the folders cannot be made"):
            for folder in (self.folder, self.pulling, self.pulled):
                self._disk.make_folder(folder)

    def renew(self) -> tuple[Listing[ImagePullIntent], Listing[ImagePulledRecord]]:
        """Remove what crashes left of ours, rewrite files of older versions; gives all that is there then.

        What cannot be read stays as it is. For inside ``writing``.
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
        """Every intent that can be read."""
        return self._list(self.pulling, INTENT, decode_intent, attrgetter("image"))

    def list_records(self) -> Listing[ImagePulledRecord]:
        """Every record that can be read."""
        return self._list(self.pulled, RECORD, decode_record, attrgetter("image_ref"))

    def intent_exists(self, image: str) -> bool:
        """Tell whether a pull of *image* was begun; RecordError if its file cannot be believed."""
        decoded = self._read(self.intent_path(image), decode_intent)
        return decoded is not None and decoded.value.image == image

    def find_record(self, image_ref: str) -> RecordLookup:
        """The record of a reference, absent, or in doubt."""
        path = self.record_path(image_ref)
        try:
            decoded = self._read(path, decode_record)
        except RecordError as error:
            return RecordLookup(problem=error)
        if decoded is None:
            return RecordLookup()
        if decoded.value.image_ref != image_ref:
            message = f"it is a record of {decoded.value.image_ref!r}, expected {image_ref!r}; remove it"
            return RecordLookup(problem=RecordError(path, message, cause="foreign"))
        return RecordLookup(decoded.value)

    def write_intent(self, image: str) -> None:
        """Write an intent, durably."""
        self._write(self.intent_path(image), encode_intent(ImagePullIntent(image)))

    def write_record(self, record: ImagePulledRecord) -> None:
        """Write a record, durably."""
        self._write(self.record_path(record.image_ref), encode_record(record))

    def delete_intent(self, image: str) -> None:
        """Remove an intent; one that is not there is fine."""
        self._delete(self.intent_path(image))

    def delete_record(self, image_ref: str) -> None:
        """Remove a record; one that is not there is fine."""
        self._delete(self.record_path(image_ref))

    def intent_path(self, image: str) -> str:
        """The file of an image's intent."""
        return os.path.join(self.pulling, file_name(image))

    def record_path(self, image_ref: str) -> str:
        """The file of a reference's record."""
        return os.path.join(self.pulled, file_name(image_ref))

    def count(self) -> tuple[int, int]:
        """How many files of intents and of records there are, whatever is in them."""
        return len(self._names(self.pulling)), len(self._names(self.pulled))

    def _names(self, folder: str, *, folders: bool = False) -> list[str]:
        with _wording(folder, "the folder cannot be read"):
            names = self._disk.names(folder, folders=folders)
        return [name for name in names if name.startswith(PREFIX) and not name.endswith(_TEMPORARY)]

    def _list(
        self,
        folder: str,
        kind: str,
        decode: Callable[[bytes, str], Decoded[_T]],
        key_of: Callable[[_T], str],
    ) -> Listing[_T]:
        values: list[_T] = []
        problems: list[RecordError] = []
        misplaced: dict[str, RecordError] = {}
        placed: set[str] = set()
        outdated: list[_T] = []
        for path, found in self._decode_all(folder, kind, decode):
            if isinstance(found, RecordError):
                problems.append(found)
                continue
            values.append(found.value)
            if not found.is_current:
                outdated.append(found.value)
            key = key_of(found.value)
            if path.endswith(file_name(key)):
                placed.add(key)
            else:
                misplaced[key] = _misplaced(path, key)
        doubts = {key: error for key, error in misplaced.items() if key not in placed}
        blocked = bool(self._names(folder, folders=True))
        return Listing(tuple(values), tuple(problems), doubts, tuple(outdated), is_obstructed=blocked)

    def _decode_all(
        self, folder: str, kind: str, decode: Callable[[bytes, str], Decoded[_T]]
    ) -> Iterator[tuple[str, Decoded[_T] | RecordError]]:
        for name in self._names(folder):
            path = os.path.join(folder, name)
            try:
                decoded = self._read(path, decode)
            except RecordError as error:
                text = f"failed to deserialize content of file {quote(path)} into {kind}: {error.kubernetes_text}"
                yield path, RecordError(path, error.message, text, error.cause, error.error_class)
            else:
                if decoded is not None:
                    yield path, decoded

    def _read(self, path: str, decode: Callable[[bytes, str], Decoded[_T]]) -> Decoded[_T] | None:
        data = self._disk.read(path)
        return None if data is None else decode(data, path)

    def _write(self, path: str, data: bytes) -> None:
        folder = os.path.dirname(path)
        temporary = f"{path}{_OURS}{token_hex(8)}{_TEMPORARY}"
        with _wording(path, "it cannot be written"):
            self._disk.make_folder(folder)
            try:
                self._fill(temporary, data)
                self._disk.rename(temporary, path)
            except BaseException:
                self._disk.unlink(temporary)
                raise
            self._disk.sync_folder(folder)

    def _fill(self, path: str, data: bytes) -> None:
        fd = self._disk.create(path)
        try:
            self._disk.write(fd, data)
            self._disk.sync(fd)
        finally:
            os.close(fd)

    def _delete(self, path: str) -> None:
        with _wording(path, "it cannot be removed"):
            self._disk.unlink(path)
            if os.path.isdir(os.path.dirname(path)):
                self._disk.sync_folder(os.path.dirname(path))

    def _sweep(self) -> None:
        """Remove temporary files of writers that are gone; inside the lock there are no others."""
        for folder in (self.pulling, self.pulled):
            for name in self._disk.names(folder):
                if _OURS in name and name.endswith(_TEMPORARY):
                    self._disk.unlink(os.path.join(folder, name))


def _misplaced(path: str, key: str) -> RecordError:
    message = f"it says it is about {key!r}, whose file is {file_name(key)}; it is not believed; remove it"
    return RecordError(path, message, cause="misplaced")


@contextmanager
def _wording(path: str, what: str) -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        message = f"{what}: {go_strerror(error)}"
        raise RecordError(path, message, f"{path}: {go_strerror(error)}") from None
