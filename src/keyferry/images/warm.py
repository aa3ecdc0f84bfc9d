"""A table of finished answers by image, so that a repeated lookup costs one dictionary access.

The table is bounded by the number of images and by bytes. A full table chooses at random whether it accepts an
image and which image it drops: if it dropped the oldest, a loop over slightly more images than the table holds would
never find one.
"""

from __future__ import annotations

from itertools import count
from threading import Lock

from keyferry.images.answer import Answer
from keyferry.images.provider.cache import MOST_BYTES, auth_bytes
from keyferry.images.provider.provision import ProvisionOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from keyferry.images.reference import ImageName

MOST_IMAGES = 4096
# The memory of one image beside its texts and credentials, as measured by ``bench/memory.py``.
_IMAGE_BYTES = 1024
# A full table accepts one image of this many: frequent images are accepted soon, rare ones seldom replace others.
_TAKES_ONE_OF = 8
# Reasons give the remaining time in tenths of a second, so an answer that is not older is returned unchanged.
_INSTANT_NS = 100_000_000


class Warm:
    """A finished answer that is valid until an instant; its hits are counted without a lock.

    From ``since_ns`` until before ``until_ns`` the answer is returned unchanged.
    """

    __slots__ = ("_readings", "answer", "expires_ns", "since_ns", "size", "slot", "tick", "until_ns")

    def __init__(self, answer: Answer, expires_ns: int) -> None:
        self.expires_ns = expires_ns
        self.slot = 0
        self.size = _IMAGE_BYTES + len(answer.image) + len(answer.name)
        # next() on a count is atomic, so no hit is lost between threads.
        self.tick = count(1).__next__
        self._readings = 0
        self._set(answer)

    def give(self, now_ns: int) -> Answer | None:
        """Count a hit and return the answer as of *now_ns*, or return None if it has expired."""
        if now_ns > self.expires_ns:
            return None
        if not self.since_ns <= now_ns < self.until_ns:
            self._set(self.answer.repeated_at(now_ns))
        self.tick()
        return self.answer

    def hits(self) -> int:
        """Return how often the answer was given; the caller holds the table's lock."""
        # Reading the count increments it, so the number of readings is subtracted.
        self._readings += 1
        return self.tick() - self._readings

    def cached_from(self) -> Iterable[str]:
        """Return the providers whose answers came from their caches."""
        return (
            provision.provider
            for provision in self.answer.provisions
            if provision.outcome is ProvisionOutcome.CACHED
        )

    def _set(self, answer: Answer) -> None:
        # The answer is set first: a thread that reads in between only makes one more copy.
        self.answer = answer
        self.since_ns = answer.answered_ns
        self.until_ns = min(answer.answered_ns + _INSTANT_NS, self.expires_ns + 1)


class WarmTable(dict["str | ImageName", Warm]):
    """Finished answers by image as written: read without a lock, changed only by the methods of this class.

    A lookup by a parsed name finds nothing: callers with a parsed name look up an image once.
    """

    __slots__ = ("_bytes", "_chance", "_given", "_images", "_is_full", "_lock", "_most", "_most_bytes")

    def __init__(self, most: int = MOST_IMAGES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        # Every image at its slot, to choose one by a random number.
        self._images: list[str] = []
        # By the identity of a provider's credentials: the number of images with them, and their size, counted once.
        self._given: dict[int, list[int]] = {}
        self._chance = 1
        # Whether the table has been full since `forget` last dropped an image.
        self._is_full = False
        self._lock = Lock()

    def declines(self) -> bool:
        """Return whether the table is full and, at random, does not accept the next image."""
        # Without the lock: two threads that draw the same number do no harm.
        return self._is_full and bool(self._any_number() % _TAKES_ONE_OF)

    def keep(self, answer: Answer, expires_ns: int) -> list[Warm]:
        """Keep an answer until an instant; return the answers that were dropped for it."""
        with self._lock:
            gone = self._drop(answer.image) if answer.image in self else []
            self._add(Warm(answer, expires_ns))
            while len(self) > self._most or self._bytes > self._most_bytes:
                self._is_full = True
                gone += self._drop(self._images[self._any_number() % len(self._images)])
        return gone

    def forget(self, image: str) -> list[Warm]:
        """Drop the answer for an image; return a list with it."""
        with self._lock:
            self._is_full = False
            return self._drop(image)

    def hits(self) -> list[tuple[Warm, int]]:
        """Return every answer with the number of times it was given."""
        with self._lock:
            return [(warm, warm.hits()) for warm in self.values()]

    def reset_after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may have held."""
        self._lock = Lock()

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
        # A linear congruential generator needs no import; its low bits are not random.
        self._chance = (self._chance * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        return self._chance >> 8
