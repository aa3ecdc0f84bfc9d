"""Striped locks: a fixed number of locks, shared by all keys; each key always has the same lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

__all__ = ["StripedLocks", "stripe_count", "stripe_of"]

_MOST = 31
_OFFSET = 2_166_136_261
_PRIME = 16_777_619
_32_BITS = 0xFFFFFFFF


def stripe_count(max_parallel_pulls: int | None) -> int:
    """Return the number of locks for a number of parallel pulls, from 1 to 31; None counts as 0."""
    return min(max(max_parallel_pulls or 0, 1), _MOST)


def stripe_of(key: str, stripes: int) -> int:
    """Return the index of a key's lock: its 32-bit FNV-1 hash (not 1a), modulo *stripes*."""
    if stripes == 1:
        return 0
    hashed = _OFFSET
    for byte in key.encode("utf-8", "surrogateescape"):
        hashed = (hashed * _PRIME & _32_BITS) ^ byte
    return hashed % stripes


class StripedLocks:
    """A fixed number of locks for any number of keys."""

    def __init__(self, max_parallel_pulls: int | None = None) -> None:
        self._locks = [Lock() for _ in range(stripe_count(max_parallel_pulls))]

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, key: str) -> Lock:
        """Return the lock of a key, for a ``with`` statement; do not acquire a second one while it is held."""
        return self._locks[stripe_of(key, len(self._locks))]

    @contextmanager
    def all(self) -> Iterator[None]:
        """Hold every lock; they are acquired in order."""
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            yield
