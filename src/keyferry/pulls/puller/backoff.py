"""The back-off of failed pulls: each further pull of the same image for the same pod waits longer."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from keyferry._core.clock import monotonic_ns
from keyferry.errors import KeyferryError

__all__ = ["BackOff"]

Key = tuple[str, str]

_SECOND_NS = 1_000_000_000
# An entry is dropped after this many times the longest wait without a failure.
_FORGET_AFTER = 2


class _Entry:
    __slots__ = ("error", "failed_ns", "wait_ns")

    def __init__(self, wait_ns: int, failed_ns: int, error: KeyferryError | None) -> None:
        self.wait_ns = wait_ns
        self.failed_ns = failed_ns
        self.error = error


class BackOff:
    """The kubelet's back-off: 10 seconds after the first failure, doubled after each further one, at most 300.

    A success does not reset it; only the passage of time does. Safe to use from many threads.
    """

    def __init__(
        self,
        first_seconds: float = 10.0,
        longest_seconds: float = 300.0,
        *,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._first_ns = round(first_seconds * _SECOND_NS)
        self._longest_ns = round(longest_seconds * _SECOND_NS)
        self._clock = clock
        self._lock = Lock()
        self._entries: dict[Key, _Entry] = {}

    def seconds_left(self, key: Key) -> float:
        """Return the number of seconds that a pull must still wait; 0 if it may start."""
        with self._lock:
            entry = self._live(key)
            return 0.0 if entry is None else max(0, entry.wait_ns - self._age_ns(entry)) / _SECOND_NS

    def last_error(self, key: Key) -> KeyferryError | None:
        """Return the error of the last pull, or None if it did not fail or another one has begun since."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry.error

    def begin(self, key: Key) -> None:
        """Note that a pull begins, and drop the error of the last one."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                entry.error = None

    def fail(self, key: Key, error: KeyferryError) -> None:
        """Note that a pull failed with *error*."""
        with self._lock:
            entry = self._live(key)
            wait_ns = self._first_ns if entry is None else min(2 * entry.wait_ns, self._longest_ns)
            self._entries[key] = _Entry(wait_ns, self._clock(), error)

    def sweep(self) -> None:
        """Drop the entries that are old enough."""
        with self._lock:
            self._entries = {key: entry for key, entry in self._entries.items() if not self._is_old(entry)}

    def _live(self, key: Key) -> _Entry | None:
        entry = self._entries.get(key)
        return None if entry is None or self._is_old(entry) else entry

    def _is_old(self, entry: _Entry) -> bool:
        return self._age_ns(entry) > _FORGET_AFTER * self._longest_ns

    def _age_ns(self, entry: _Entry) -> int:
        return self._clock() - entry.failed_ns
