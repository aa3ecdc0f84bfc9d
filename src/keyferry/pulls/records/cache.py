"""The kubelet's memory in front of its files: bounded, written through, and sure of absence only when it knows all.

Beyond the kubelet's: a number in the folder's lock tells when another process changed something. Then everything
here is forgotten and read anew. Changes by hand, which no number tells, go unnoticed as long as they do in a kubelet.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Generic, TypeVar

from keyferry._core.values import Value
from keyferry.api.kubeletconfig.records import ImagePulledRecord, ImagePullIntent
from keyferry.pulls.records.files import RecordFiles
from keyferry.pulls.records.lookups import Listing, RecordLookup
from keyferry.pulls.records.stripes import StripedLocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.errors import RecordError

__all__ = ["CacheSizes", "CachedRecords", "LruCache"]

_T = TypeVar("_T")
_MAX_PODS = 110
_MOST_INTENTS, _MOST_RECORDS = 1024, 2000


class CacheSizes(Value):
    """How many intents and records are kept in memory."""

    intents: int
    records: int

    @classmethod
    def for_node(cls, max_pods: int = _MAX_PODS, max_parallel_pulls: int | None = None) -> "CacheSizes":
        """As the kubelet sizes them for so many pods, and so many pulls at a time."""
        intents = min(max(2 * max_pods, 2 * (max_parallel_pulls or 0)), _MOST_INTENTS)
        return cls(intents, min(5 * max_pods, _MOST_RECORDS))


class LruCache(Generic[_T]):
    """The values last used; *authoritative* while what is not in it is known not to be at all."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.authoritative = False
        self._values: OrderedDict[str, _T] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> _T | None:
        """The value of a key, which counts as used; None if it is not in memory."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: str, value: _T) -> None:
        """Keep a value; for want of room the one not used for longest goes, and with it the authority."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self.size:
                self._values.popitem(last=False)
                self.authoritative = False

    def drop(self, key: str) -> None:
        """Forget one value that is known to be gone."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Forget everything, the authority included."""
        with self._lock:
            self._values.clear()
            self.authoritative = False

    def take(self, values: dict[str, _T], *, is_complete: bool) -> None:
        """Take in a listing: all of it if it is complete and fits with room to spare, else only into an empty cache."""
        with self._lock:
            authoritative = is_complete and len(values) < self.size
            if authoritative or not self._values:
                self._values = OrderedDict(list(values.items())[: self.size])
                self.authoritative = authoritative

    @contextmanager
    def in_doubt(self, key: str) -> Iterator[None]:
        """While a file is changed: if that fails half-way, nobody knows what it holds, so the next look goes there."""
        try:
            yield
        except BaseException:
            with self._lock:
                self._values.pop(key, None)
                self.authoritative = False
            raise

    @property
    def usage_percent(self) -> int:
        """How full it is."""
        return len(self._values) * 100 // self.size if self.size > 0 else 0


class CachedRecords:
    """Records and intents by way of the memory; the same methods as :class:`RecordFiles`."""

    def __init__(
        self, files: RecordFiles, sizes: CacheSizes | None = None, *, max_parallel_pulls: int | None = None
    ) -> None:
        sizes = sizes or CacheSizes.for_node(max_parallel_pulls=max_parallel_pulls)
        self.files = files
        self.intents: LruCache[ImagePullIntent] = LruCache(sizes.intents)
        self.records: LruCache[ImagePulledRecord] = LruCache(sizes.records)
        # A look at the files and a change of them take turns, key by key: no old content is kept over a new one.
        self._intent_locks = StripedLocks(max_parallel_pulls)
        self._record_locks = StripedLocks(max_parallel_pulls)
        self._doubts: dict[str, RecordError] = {}
        # The folder's numbers that mean nothing new; how often all was forgotten.
        self._known: tuple[int, ...] = ()
        self._epoch = 0
        self._forgetting = Lock()

    def prepare(self) -> None:
        """Prepare the files, and read them all into memory."""
        self.files.make_folders()
        with self.writing():
            intents, records = self.files.renew()
            self._take_intents(intents)
            self._take_records(records)

    def close(self) -> None:
        """Let go of the lock's file."""
        self.files.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other writers out, and see what they did before."""
        with self.files.writing(self._begin):
            yield

    def list_intents(self) -> Listing[ImagePullIntent]:
        """Every intent that can be read; always from the files, and an occasion to learn them all."""
        before = self._look_around()
        with self._intent_locks.all():
            listing = self.files.list_intents()
            if not self.intents.authoritative and self._is_still(before):
                self._take_intents(listing)
        return listing

    def list_records(self) -> Listing[ImagePulledRecord]:
        """Every record that can be read; always from the files, and an occasion to learn them all."""
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
        """Tell whether a pull of *image* was begun; RecordError if its file cannot be believed."""
        before = self._look_around()
        if self.intents.get(image) is not None:
            return True
        if self.intents.authoritative:
            return False
        with self._intent_locks.of(image):
            exists = self.files.intent_exists(image)
            if exists and self._is_still(before):
                self.intents.put(image, ImagePullIntent(image))
            return exists

    def find_record(self, image_ref: str) -> RecordLookup:
        """The record of a reference, absent, or in doubt."""
        before = self._look_around()
        record = self.records.get(image_ref)
        if record is not None:
            return RecordLookup(record)
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
        """Write an intent to its file, then to memory."""
        with self._intent_locks.of(image), self.intents.in_doubt(image):
            self.files.write_intent(image)
            self.intents.put(image, ImagePullIntent(image))

    def write_record(self, record: ImagePulledRecord) -> None:
        """Write a record to its file, then to memory."""
        with self._record_locks.of(record.image_ref), self.records.in_doubt(record.image_ref):
            self.files.write_record(record)
            self.records.put(record.image_ref, record)
            self._doubts.pop(record.image_ref, None)

    def delete_intent(self, image: str) -> None:
        """Remove an intent's file, then forget it."""
        with self._intent_locks.of(image), self.intents.in_doubt(image):
            self.files.delete_intent(image)
            self.intents.drop(image)

    def delete_record(self, image_ref: str) -> None:
        """Remove a record's file, then forget it."""
        with self._record_locks.of(image_ref), self.records.in_doubt(image_ref):
            self.files.delete_record(image_ref)
            self.records.drop(image_ref)

    def _begin(self, before: int) -> None:
        """A change of our own begins: the numbers it goes through are no news, unless others came before."""
        with self._forgetting:
            if before not in self._known:
                self._forget()
            odd = before | 1
            self._known = (before, odd, odd + 1)

    def _look_around(self) -> int | None:
        """Forget everything if others changed something; None while they are about to, when nothing may be kept."""
        # Looked at again, since a change of our own may have come between the number and what is known.
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
        """Tell whether nobody else has changed anything since."""
        return epoch is not None and self._look_around() == epoch

    def _forget(self) -> None:
        self._epoch += 1
        self.intents.clear()
        self.records.clear()
        self._doubts = {}
