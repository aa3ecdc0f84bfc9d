"""Share plugin runs by key: a caller that needs a run in progress waits for it and gets the same result."""

from __future__ import annotations

from collections.abc import Hashable
from threading import TIMEOUT_MAX, Event

from keyferry._core.type_forms import Generic, T


class SharedRun(Generic[T]):
    """A run in progress, which finishes once; every waiting caller gets its result."""

    __slots__ = ("_finished", "answer")

    def __init__(self) -> None:
        self._finished = Event()
        self.answer: T | None = None

    def wait(self, seconds: float = TIMEOUT_MAX) -> T | None:
        """Wait for the result and return it; None if there is none. Raises TimeoutError after *seconds*."""
        if not self._finished.wait(min(seconds, TIMEOUT_MAX)):
            raise TimeoutError
        return self.answer

    def finish(self, answer: T | None) -> None:
        """Set the result and wake up all waiting callers."""
        if self._finished.is_set():
            raise RuntimeError("the run has finished before")
        self.answer = answer
        self._finished.set()


class SharedRuns(Generic[T]):
    """The runs in progress by key. Callers must hold a lock during every method."""

    __slots__ = ("_current",)

    def __init__(self) -> None:
        self._current: dict[Hashable, SharedRun[T]] = {}

    def __len__(self) -> int:
        return len(set(map(id, self._current.values())))

    def find(self, key: Hashable) -> SharedRun[T] | None:
        """Return the run in progress for *key*, if any."""
        return self._current.get(key)

    def start(self, keys: tuple[Hashable, ...]) -> SharedRun[T]:
        """Start a run and register it for each of *keys* that no other run is registered for."""
        run: SharedRun[T] = SharedRun()
        for key in keys:
            self._current.setdefault(key, run)
        return run

    def remove(self, keys: tuple[Hashable, ...], run: SharedRun[T]) -> None:
        """Remove a run; the caller must finish it afterwards."""
        for key in keys:
            if self._current.get(key) is run:
                del self._current[key]
