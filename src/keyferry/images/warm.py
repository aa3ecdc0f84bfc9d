"""Finished answers by image, so that one who asks again has the whole answer at the cost of a dictionary hit.

The table is bounded, by the number of images and by bytes. Which image a full table takes in, and which one gives
way, is left to chance: whoever goes round and round a few images more than the table holds would find none of them
if the oldest gave way.
"""

from _thread import allocate_lock
from collections.abc import Iterable
from itertools import count

from keyferry.images.answer import Answer
from keyferry.images.provider.cache import MOST_BYTES, auth_bytes
from keyferry.images.provider.provision import ProvisionOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.images.reference import ImageName

MOST_IMAGES = 4096
# What one image takes beside its texts and what its providers gave, as ``bench/memory.py`` finds.
_IMAGE_BYTES = 1024
# A full table takes in one image of so many: one that is asked for often has its place soon, the others cost little.
_TAKES_ONE_OF = 8
# Reasons tell the time left in tenths of a second, so that an answer given less than one ago is given again as it is.
_INSTANT_NS = 100_000_000


class Warm:
    """A finished answer, good until an instant; how often it was given is counted without a lock.

    From ``since_ns`` to before ``until_ns`` the answer is given as it is.
    """

    __slots__ = ("_readings", "answer", "expires_ns", "since_ns", "size", "slot", "tick", "until_ns")

    def __init__(self, answer: Answer, expires_ns: int) -> None:
        self.expires_ns = expires_ns
        self.slot = 0
        self.size = _IMAGE_BYTES + len(answer.image) + len(answer.name)
        # next() on a count is one uninterrupted step, so no hit is lost between threads.
        self.tick = count(1).__next__
        self._readings = 0
        self._set(answer)

    def give(self, now_ns: int) -> Answer | None:
        """The answer as of this instant, counted; None once it is over."""
        if now_ns > self.expires_ns:
            return None
        if not self.since_ns <= now_ns < self.until_ns:
            self._set(self.answer.repeated_at(now_ns))
        self.tick()
        return self.answer

    def hits(self) -> int:
        """How often the answer was given; the caller holds the table's lock."""
        # To read the count is to count: as often as it was read is taken off again.
        self._readings += 1
        return self.tick() - self._readings

    def cached_from(self) -> Iterable[str]:
        """The providers whose caches the answer stands for."""
        return (
            provision.provider
            for provision in self.answer.provisions
            if provision.outcome is ProvisionOutcome.CACHED
        )

    def _set(self, answer: Answer) -> None:
        # The answer first: who reads in between makes one more.
        self.answer = answer
        self.since_ns = answer.answered_ns
        self.until_ns = min(answer.answered_ns + _INSTANT_NS, self.expires_ns + 1)


class WarmTable(dict["str | ImageName", Warm]):
    """Finished answers by image as it was written: read without a lock, changed by the methods here alone.

    A parsed name may be asked for and is not found: who carries one asks for the image once.
    """

    __slots__ = ("_bytes", "_chance", "_given", "_images", "_is_full", "_lock", "_most", "_most_bytes")

    def __init__(self, most: int = MOST_IMAGES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        # Every image at its slot, to choose one by number.
        self._images: list[str] = []
        # By its identity, what a provider gave: for how many images, and its size, which counts once.
        self._given: dict[int, list[int]] = {}
        self._chance = 1
        # Whether something had to give way since an image was last dropped.
        self._is_full = False
        self._lock = allocate_lock()

    def keep(self, answer: Answer, expires_ns: int) -> list[Warm]:
        """Keep an answer until an instant, unless the table is full and luck is against it; give what gave way."""
        with self._lock:
            if self._is_full and self._any_number() % _TAKES_ONE_OF:
                return []
            gone = self._drop(answer.image)
            self._add(Warm(answer, expires_ns))
            while len(self) > self._most or self._bytes > self._most_bytes:
                self._is_full = True
                gone += self._drop(self._images[self._any_number() % len(self._images)])
        return gone

    def forget(self, image: str) -> list[Warm]:
        """Drop what was kept for an image; give it."""
        with self._lock:
            self._is_full = False
            return self._drop(image)

    def hits(self) -> list[tuple[Warm, int]]:
        """Every answer with how often it was given."""
        with self._lock:
            return [(warm, warm.hits()) for warm in self.values()]

    def reset_after_fork(self) -> None:
        """Forget a lock that only a thread of the parent could release."""
        self._lock = allocate_lock()

    def _add(self, warm: Warm) -> None:
        image = warm.answer.image
        warm.slot = len(self._images)
        self._images.append(image)
        self[image] = warm
        self._bytes += warm.size
        for provision in warm.answer.provisions:
            given = self._given.setdefault(id(provision.auth), [0, 0])
            if not given[0]:
                given[1] = auth_bytes(provision.auth)
                self._bytes += given[1]
            given[0] += 1

    def _drop(self, image: str) -> list[Warm]:
        warm = self.pop(image, None)
        if warm is None:
            return []
        last = self._images.pop()
        if last != image:
            self._images[warm.slot] = last
            self[last].slot = warm.slot
        self._bytes -= warm.size
        for provision in warm.answer.provisions:
            given = self._given[id(provision.auth)]
            given[0] -= 1
            if not given[0]:
                self._bytes -= given[1]
                del self._given[id(provision.auth)]
        return [warm]

    def _any_number(self) -> int:
        # A plain generator will do, and costs no import; its low bits are not random.
        self._chance = (self._chance * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        return self._chance >> 8
