"""The kubelet's cache in front of its files: bounded, written through, and authoritative if it holds all files.

Unlike the kubelet's, it detects changes by other processes of keyferry, by the number in the folder's lock, and is
dropped then. Changes by other programs do not change the number, and are noticed no earlier than in a kubelet.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from keyferry._core.type_forms import Generic, T
from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import ImagePulledRecord, ImagePullIntent
from keyferry.errors import RecordError
from keyferry.pulls.records.files import RecordFiles
from keyferry.pulls.records.lookups import Listing, RecordLookup
from keyferry.pulls.records.stripes import StripedLocks

__all__ = ["CacheSizes", "CachedRecords", "LruCache"]

_MAX_PODS = 110
_MOST_INTENTS, _MOST_RECORDS = 1024, 2000


class CacheSizes(Value):
    """The numbers of intents and records that are cached."""

    intents: int
    records: int

    @classmethod
    def for_node(cls, max_pods: int = _MAX_PODS, max_parallel_pulls: int | None = None) -> CacheSizes:
        """Return the kubelet's sizes for a number of pods and of parallel pulls."""
        intents = min(max(2 * max_pods, 2 * (max_parallel_pulls or 0)), _MOST_INTENTS)
        return cls(intents=intents, records=min(5 * max_pods, _MOST_RECORDS))


class LruCache(Generic[T]):
    """A cache of the most recently used values; while it is *authoritative*, a missing key is known not to exist."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.authoritative = False
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> T | None:
        """Return the value of a key and mark it as used, or return None if it is not cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: str, value: T) -> None:
        """Store a value; if the cache is full, drop the least recently used one and reset *authoritative*."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self.size:
                self._values.popitem(last=False)
                self.authoritative = False

    def drop(self, key: str) -> None:
        """Remove a value that is known not to exist any more."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Remove all values, and reset *authoritative*."""
        with self._lock:
            self._values.clear()
            self.authoritative = False

    def take(self, values: dict[str, T], *, is_complete: bool) -> None:
        """Replace the content by a listing if it is complete and smaller than the cache, or if the cache is empty."""
        with self._lock:
            authoritative = is_complete and len(values) < self.size
            if authoritative or not self._values:
                self._values = OrderedDict(list(values.items())[: self.size])
                self.authoritative = authoritative

    @contextmanager
    def in_doubt(self, key: str) -> Iterator[None]:
        """Drop the key of a file whose change fails, and reset *authoritative*: the next lookup reads the file."""
        try:
            yield
        except BaseException:
            with self._lock:
                self._values.pop(key, None)
                self.authoritative = False
            raise

    @property
    def usage_percent(self) -> int:
        """The used part of the cache, in percent."""
        return len(self._values) * 100 // self.size if self.size > 0 else 0


class CachedRecords:
    """Records and intents through the cache, with the same methods as :class:`RecordFiles`."""

    def __init__(
        self, files: RecordFiles, sizes: CacheSizes | None = None, *, max_parallel_pulls: int | None = None
    ) -> None:
        sizes = sizes or CacheSizes.for_node(max_parallel_pulls=max_parallel_pulls)
        self.files = files
        self.intents: LruCache[ImagePullIntent] = LruCache(sizes.intents)
        self.records: LruCache[ImagePulledRecord] = LruCache(sizes.records)
        # Reads and writes of a file exclude each other, so that old content cannot replace new content in the cache.
        self._intent_locks = StripedLocks(max_parallel_pulls)
        self._record_locks = StripedLocks(max_parallel_pulls)
        self._doubts: dict[str, RecordError] = {}
        # The numbers of the folder's lock that mean no change by others, and how often the cache was dropped.
        self._known: tuple[int, ...] = ()
        self._epoch = 0
        self._forgetting = Lock()

    def prepare(self) -> None:
        """Prepare the files, and read all of them into the cache."""
        self.files.make_folders()
        with self.writing():
            intents, records = self.files.renew()
            self._take_intents(intents)
            self._take_records(records)

    def close(self) -> None:
        """Close the descriptors of the folders and of the lock's file."""
        self.files.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock, and drop the cache if another process has made changes."""
        with self.files.writing(self._begin):
            yield

    def list_intents(self) -> Listing[ImagePullIntent]:
        """Return every intent, always from the files; refill the cache if it is not authoritative."""
        before = self._look_around()
        with self._intent_locks.all():
            listing = self.files.list_intents()
            if not self.intents.authoritative and self._is_still(before):
                self._take_intents(listing)
        return listing

    def list_records(self) -> Listing[ImagePulledRecord]:
        """Return every record, always from the files; refill the cache if it is not authoritative."""
        before = self._look_around()
        with self._record_locks.all():
            listing = self.files.list_records()
            if not self.records.authoritative and self._is_still(before):
                self._take_records(listing)
        return listing

    def _take_intents(self, listing: Listing[ImagePullIntent]) -> None:
        self.intents.take({each.image: each for each in listing.values}, is_complete=listing.is_complete)

    def _take_records(self, listing: Listing[ImagePulledRecord]) -> None:
        found = {each.image_ref: each for each in listing.believed}
        self.records.take(found, is_complete=listing.is_complete)
        self._doubts = dict(listing.doubts)

    def intent_exists(self, image: str) -> bool:
        """Return whether there is an intent for *image*; raise RecordError if its file cannot be trusted."""
        before = self._look_around()
        if self.intents.get(image) is not None:
            return True
        if self.intents.authoritative:
            return False
        with self._intent_locks.of(image):
            exists = self.files.intent_exists(image)
            if exists and self._is_still(before):
                self.intents.put(image, ImagePullIntent(image=image))
            return exists

    def find_record(self, image_ref: str) -> RecordLookup:
        """Return the lookup of a reference: a record, none, or a problem."""
        before = self._look_around()
        record = self.records.get(image_ref)
        if record is not None:
            return RecordLookup(record=record)
        if image_ref in self._doubts:
            return RecordLookup(problem=self._doubts[image_ref])
        if self.records.authoritative:
            return RecordLookup()
        with self._record_locks.of(image_ref):
            lookup = self.files.find_record(image_ref)
            if lookup.record is not None and self._is_still(before):
                self.records.put(image_ref, lookup.record)
            return lookup

    def write_intent(self, image: str) -> None:
        """Write an intent to its file, then to the cache."""
        with self._intent_locks.of(image), self.intents.in_doubt(image):
            self.files.write_intent(image)
            self.intents.put(image, ImagePullIntent(image=image))

    def write_record(self, record: ImagePulledRecord) -> None:
        """Write a record to its file, then to the cache."""
        with self._record_locks.of(record.image_ref), self.records.in_doubt(record.image_ref):
            self.files.write_record(record)
            self.records.put(record.image_ref, record)
            self._doubts.pop(record.image_ref, None)

    def delete_intent(self, image: str) -> None:
        """Remove an intent's file, then its cache entry."""
        with self._intent_locks.of(image), self.intents.in_doubt(image):
            self.files.delete_intent(image)
            self.intents.drop(image)

    def delete_record(self, image_ref: str) -> None:
        """Remove a record's file, then its cache entry."""
        with self._record_locks.of(image_ref), self.records.in_doubt(image_ref):
            self.files.delete_record(image_ref)
            self.records.drop(image_ref)

    def _begin(self, before: int) -> None:
        """Note the numbers of this process's own change; drop the cache if others made changes before."""
        with self._forgetting:
            if before not in self._known:
                self._forget()
            odd = before | 1
            self._known = (before, odd, odd + 1)

    def _look_around(self) -> int | None:
        """Drop the cache if other processes made changes, and return how often it was dropped.

        Return None while another process makes changes, when nothing may be cached.
        """
        # Repeated, because a change by this process may happen between the read of the number and the comparison.
        for _ in range(3):
            if self.files.lock.generation() in self._known:
                return self._epoch
        with self._forgetting:
            number = self.files.lock.generation()
            if number not in self._known:
                self._forget()
                self._known = () if number % 2 else (number,)
            return None if number % 2 else self._epoch

    def _is_still(self, epoch: int | None) -> bool:
        """Return whether no other process has made changes since *epoch*."""
        return epoch is not None and self._look_around() == epoch

    def _forget(self) -> None:
        self._epoch += 1
        self.intents.clear()
        self.records.clear()
        self._doubts = {}
