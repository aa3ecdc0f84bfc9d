"""Locks shared by keys: as many as pulls may run side by side, each key always under the same one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

__all__ = ["StripedLocks", "stripe_count", "stripe_of"]

_MOST = 31
_OFFSET = 2_166_136_261
_PRIME = 16_777_619
_32_BITS = 0xFFFFFFFF


def stripe_count(max_parallel_pulls: int | None) -> int:
    """The number of locks for so many pulls at a time: 1 to 31; unset counts as 0."""
    return min(max(max_parallel_pulls or 0, 1), _MOST)


def stripe_of(key: str, stripes: int) -> int:
    """The lock of a key: its FNV-1 hash (not 1a) of 32 bits, modulo their number."""
    if stripes == 1:
        return 0
    hashed = _OFFSET
    for byte in key.encode("utf-8", "surrogateescape"):
        hashed = (hashed * _PRIME & _32_BITS) ^ byte
    return hashed % stripes


class StripedLocks:
    """A lock for every key, of which several share one."""

    def __init__(self, max_parallel_pulls: int | None = None) -> None:
        self._locks = [Lock() for _ in range(stripe_count(max_parallel_pulls))]

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, key: str) -> Lock:
        """The lock of a key, to be used in a ``with``; do not take a second one inside it."""
        return self._locks[stripe_of(key, len(self._locks))]

    @contextmanager
    def all(self) -> Iterator[None]:
        """Hold every lock, taken in order."""
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            yield
