"""Share calls by key: a caller that needs a call in progress waits for it and gets the same result."""

from __future__ import annotations

from collections.abc import Hashable
from threading import TIMEOUT_MAX, Event

from keyferry._core.type_forms import Generic, T


class Flight(Generic[T]):
    """A call in progress, which lands once; every waiting caller gets its result."""

    __slots__ = ("_landed", "answer")

    def __init__(self) -> None:
        self._landed = Event()
        self.answer: T | None = None

    def wait(self, seconds: float = TIMEOUT_MAX) -> T | None:
        """Wait for the result and return it; None if there is none. Raises TimeoutError after *seconds*."""
        if not self._landed.wait(min(seconds, TIMEOUT_MAX)):
            raise TimeoutError
        return self.answer

    def land(self, answer: T | None) -> None:
        """Set the result and wake up all waiting callers."""
        if self._landed.is_set():
            raise RuntimeError("the call has landed before")
        self.answer = answer
        self._landed.set()


class Flights(Generic[T]):
    """The calls in progress by key. Callers must hold a lock during every method."""

    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: dict[Hashable, Flight[T]] = {}

    def __len__(self) -> int:
        return len(set(map(id, self._under_way.values())))

    def find(self, key: Hashable) -> Flight[T] | None:
        """Return the call in progress for *key*, if any."""
        return self._under_way.get(key)

    def start(self, keys: tuple[Hashable, ...]) -> Flight[T]:
        """Start a call and register it for each of *keys* that no other call is registered for."""
        flight: Flight[T] = Flight()
        for key in keys:
            self._under_way.setdefault(key, flight)
        return flight

    def finish(self, keys: tuple[Hashable, ...], flight: Flight[T]) -> None:
        """Remove a call; the caller must land it afterwards."""
        for key in keys:
            if self._under_way.get(key) is flight:
                del self._under_way[key]
