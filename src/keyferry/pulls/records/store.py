"""The kubelet's two folders of pull records, ``image_manager/pulling`` and ``image_manager/pulled``, and their memory.

A record grants access, so one in a file that does not have the name of its reference is not believed, but in doubt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from threading import Lock

from keyferry._core.files import DistrustedError, Folder
from keyferry._core.gotext import go_strerror, quote
from keyferry._core.type_forms import Generic, T
from keyferry._core.values import Value
from keyferry.api.codec import aggregate
from keyferry.api.kubeletconfig.records import (
    INTENT,
    RECORD,
    ImagePulledRecord,
    ImagePullIntent,
    encode_intent,
    encode_record,
)
from keyferry.errors import Kind, RecordError
from keyferry.pulls.records.disk import Disk, FolderLock, unreadable
from keyferry.pulls.records.format import PREFIX, Decoded, decode_intent, decode_record, file_name

FOLDER, PULLING, PULLED = "image_manager", "pulling", "pulled"
_TEMPORARY = ".tmp"
# The kubelet ignores files with its own suffix for temporary files. This infix distinguishes those of keyferry.
_OURS = ".keyferry-"
_MAX_PODS = 110
_MAX_INTENTS, _MAX_RECORDS = 1024, 2000


class _File(Generic[T]):
    """One readable file: its value, the key that it is about, and whether it is in the current API version.

    *stray* is an error if the name of the file is not that of the key.
    """

    def __init__(self, value: T, key: str, stray: RecordError | None, *, is_current: bool) -> None:
        self.value = value
        self.key = key
        self.stray = stray
        self.is_current = is_current


class Listing(Generic[T]):
    """The values of a folder's readable files, in the order of the file names, and the problems of the others.

    *values* are those that a kubelet lists, *believed* the ones in files of the right name. *strays* are the errors of
    files with a wrong name, and *doubts* are these errors by key, for keys that occur only in such files. *outdated*
    are the values to rewrite; a file with a wrong name is left out if the file with the right name exists.
    *is_complete* is False if other entries may exist: there are problems, or folders with the names of files.
    """

    def __init__(
        self,
        files: Sequence[_File[T]] = (),
        problems: Sequence[RecordError] = (),
        *,
        is_obstructed: bool = False,
    ) -> None:
        placed = {each.key for each in files if each.stray is None}
        strays = [(each.key, each.stray) for each in files if each.stray is not None]
        self.values = tuple(each.value for each in files)
        self.believed = tuple(each.value for each in files if each.stray is None)
        self.strays = tuple(stray for _, stray in strays)
        self.doubts = {key: stray for key, stray in strays if key not in placed}
        self.outdated = tuple(
            each.value
            for each in files
            if not each.is_current and (each.stray is None or each.key not in placed)
        )
        self.problems = tuple(problems)
        self.is_complete = not problems and not is_obstructed

    @property
    def kubernetes_text(self) -> str:
        """All problems in one text, as Kubernetes writes them."""
        return aggregate(problem.kubernetes_text for problem in self.problems)


class RecordLookup(Value):
    """The lookup of one reference: a record, none, or a *problem* with its file.

    A file that names another image counts as no record, as in the kubelet; *problem* is set in that case too.
    """

    record: ImagePulledRecord | None = None
    problem: RecordError | None = None

    @property
    def exists(self) -> bool:
        """Whether the reference has a file, readable or not; a file that names another image does not count."""
        return self.record is not None or (self.problem is not None and self.problem.kind is not Kind.FOREIGN)

    @property
    def failure(self) -> RecordError | None:
        """The problem, if it prevents a decision about the reference, or None."""
        return self.problem if self.exists and self.record is None else None


class RecordFiles:
    """Intents and records as files, with the kubelet's names, bytes and modes; every lookup reads the disk.

    Nothing is made or changed before :meth:`prepare`. Changes are allowed only inside ``with files.writing():``; they
    are made in *memory*, too.
    """

    def __init__(self, root: str, disk: Disk | None = None, memory: RecordMemory | None = None) -> None:
        self.root = root
        self.memory = memory
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
    def writing(self) -> Iterator[None]:
        """Hold the lock, so that no other thread or process of keyferry changes the files."""
        with self.lock.held(lambda number: self.memory.begin_change(number) if self.memory else None):
            yield

    def prepare(self) -> None:
        """Make the folders, rewrite files of older versions, and read all files into the memory.

        Existing folders of the user are restricted to the user. Temporary files that a crash left are removed;
        unreadable files are not changed.
        """
        with _wording(self.folder, "cannot make the folders"):
            for name in (PULLING, PULLED):
                self._disk.make_folder(self.root, FOLDER, name).close()
        with self.writing():
            self._sweep()
            intents, records = self.list_intents(), self.list_records()
            for intent in intents.outdated:
                self.write_intent(intent.image)
            for record in records.outdated:
                self.write_record(record)
            if intents.outdated or records.outdated:
                intents, records = self.list_intents(), self.list_records()
            if self.memory is not None:
                self.memory.fill(intents, records)

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
        """Return the lookup of a reference in its file: a record, none, or a problem."""
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

    def find_doubt(self, image_ref: str) -> RecordError | None:
        """Return why a reference without a file of its own is in doubt: its record is in a file of another name."""
        known = None if self.memory is None else self.memory.doubts
        try:
            return (self.list_records().doubts if known is None else known).get(image_ref)
        except RecordError as error:
            return error

    def write_intent(self, image: str) -> None:
        """Write an intent durably."""
        intent = ImagePullIntent(image=image)
        self._write(PULLING, image, encode_intent(intent))
        if self.memory is not None:
            self.memory.intents.put(image, intent)

    def write_record(self, record: ImagePulledRecord) -> None:
        """Write a record durably."""
        self._write(PULLED, record.image_ref, encode_record(record))
        if self.memory is not None:
            self.memory.records.put(record.image_ref, record)

    def delete_intent(self, image: str) -> None:
        """Remove an intent; an intent that does not exist is ignored."""
        self._delete(PULLING, image)
        if self.memory is not None:
            self.memory.intents.drop(image)

    def delete_record(self, image_ref: str) -> None:
        """Remove a record; a record that does not exist is ignored."""
        self._delete(PULLED, image_ref)
        if self.memory is not None:
            self.memory.records.drop(image_ref)

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

    @contextmanager
    def _opened(self, which: str) -> Iterator[Folder | None]:
        """Open one of the two folders to list its files; yield None if it does not exist."""
        path = os.path.join(self.folder, which)
        try:
            folder = self._disk.open_folder(self.root, FOLDER, which)
        except OSError as error:
            raise unreadable(path, error) from None
        if folder is None:
            yield None
            return
        with folder, _wording(path, "cannot read the folder"):
            yield folder

    def _list(
        self, which: str, kind: str, decode: Callable[[bytes, str], Decoded[T]], key_of: Callable[[T], str]
    ) -> Listing[T]:
        files: list[_File[T]] = []
        problems: list[RecordError] = []
        with self._opened(which) as folder:
            if folder is None:
                return Listing()
            for name in _names(folder):
                path = folder.path_of(name)
                try:
                    decoded = self._read(folder, name, decode)
                except RecordError as error:
                    text = (
                        f"failed to deserialize content of file {quote(path)} into {kind}: "
                        f"{error.kubernetes_text}"
                    )
                    problems.append(RecordError(path, error.message, text, error.kind, error.document_kind))
                    continue
                if decoded is not None:
                    key = key_of(decoded.value)
                    stray = None if name == file_name(key) else _misplaced(path, key)
                    files.append(_File(decoded.value, key, stray, is_current=decoded.is_current))
            return Listing(files, problems, is_obstructed=bool(_names(folder, folders=True)))

    def _find(self, which: str, key: str, decode: Callable[[bytes, str], Decoded[T]]) -> Decoded[T] | None:
        try:
            folder = self._disk.open_folder(self.root, FOLDER, which)
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
            self._changing(which, name, "cannot write the file"),
            self._disk.make_folder(self.root, FOLDER, which) as folder,
        ):
            folder.replace(name, data, mode=0o600, draft=draft)

    def _delete(self, which: str, key: str) -> None:
        name = file_name(key)
        with self._changing(which, name, "cannot remove the file"):
            folder = self._disk.open_folder(self.root, FOLDER, which)
            if folder is not None:
                with folder:
                    folder.unlink(name)
                    folder.sync()

    @contextmanager
    def _changing(self, which: str, name: str, problem: str) -> Iterator[None]:
        """Change a file; if that fails, nobody knows what it holds, so the memory does not tell either."""
        try:
            with _wording(os.path.join(self.folder, which, name), problem):
                yield
        except BaseException:
            if self.memory is not None:
                self.memory.forget()
            raise

    def _sweep(self) -> None:
        """Remove the temporary files of processes that have ended; while the lock is held there are no others."""
        for which in (PULLING, PULLED):
            with self._opened(which) as folder:
                if folder is not None:
                    for name in folder.names(folders=False):
                        if _OURS in name and name.endswith(_TEMPORARY):
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


class CacheSizes(Value):
    """The numbers of intents and records that are kept in memory."""

    intents: int
    records: int

    @classmethod
    def for_node(cls, max_pods: int = _MAX_PODS, max_parallel_pulls: int | None = None) -> CacheSizes:
        """Return the kubelet's sizes for a number of pods and of parallel pulls."""
        intents = min(max(2 * max_pods, 2 * (max_parallel_pulls or 0)), _MAX_INTENTS)
        return cls(intents=intents, records=min(5 * max_pods, _MAX_RECORDS))


class Known(Generic[T]):
    """The known values of a folder, at most *size*; if they are complete, there is no other one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_complete = False
        self._values: dict[str, T] = {}

    def look_up(self, key: str) -> tuple[bool, T | None]:
        """Return whether it is known what a key has, and its value; None if it has none."""
        value = self._values.get(key)
        # Asked in this order, because another thread that forgets the values resets the flag before.
        return value is not None or self.is_complete, value

    def put(self, key: str, value: T) -> None:
        """Keep a value, if there is room for it."""
        if key in self._values or len(self._values) < self.size:
            self._values[key] = value
        else:
            self.is_complete = False

    def drop(self, key: str) -> None:
        """Remove a value that does not exist any more."""
        self._values.pop(key, None)

    def fill(self, values: dict[str, T], *, is_complete: bool) -> None:
        """Replace all values; those of a listing that has no room left, or of an incomplete one, are not complete."""
        self.is_complete = False
        self._values = dict(list(values.items())[: self.size])
        self.is_complete = is_complete and len(values) < self.size

    @property
    def usage_percent(self) -> int:
        """The used part of the room, in percent."""
        return len(self._values) * 100 // self.size if self.size > 0 else 0


class RecordMemory:
    """All intents and records as they were when the files were opened, and as this process has changed them since.

    As in the kubelet, it is bounded, and what other programs write is not seen. Changes by other processes of keyferry
    are: the number in the folder's lock tells that there were some, and everything is forgotten.
    """

    def __init__(self, sizes: CacheSizes) -> None:
        self.intents: Known[ImagePullIntent] = Known(sizes.intents)
        self.records: Known[ImagePulledRecord] = Known(sizes.records)
        # Why references are in doubt, as in a listing; None if that is not known.
        self.doubts: dict[str, RecordError] | None = None
        self._lock = Lock()
        # The first and the last number of the folder's lock between which nobody else has changed the files.
        self._first = self._last = 0

    def fill(self, intents: Listing[ImagePullIntent], records: Listing[ImagePulledRecord]) -> None:
        """Take over complete listings, which were made while the lock was held."""
        self.intents.fill({each.image: each for each in intents.values}, is_complete=intents.is_complete)
        self.records.fill(
            {each.image_ref: each for each in records.believed}, is_complete=records.is_complete
        )
        self.doubts = dict(records.doubts)

    def begin_change(self, number: int) -> None:
        """Note that this process begins a change, and that *number* is that of the change before it."""
        with self._lock:
            if number != self._last:
                self.forget()
                self._first = number
            # The numbers during and after the change.
            self._last = (number | 1) + 1

    def look(self, number: int) -> None:
        """Forget everything if somebody else has made a change; *number* is that of the last change."""
        with self._lock:
            if not self._first <= number <= self._last:
                self.forget()
                self._first = self._last = number

    def forget(self) -> None:
        """Forget everything, so that the next lookups read the files."""
        self.intents.fill({}, is_complete=False)
        self.records.fill({}, is_complete=False)
        self.doubts = None
