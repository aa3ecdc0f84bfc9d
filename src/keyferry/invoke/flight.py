"""One call per key: who asks while a call is under way waits for it and shares its answer."""

from _thread import TIMEOUT_MAX, allocate_lock
from collections.abc import Hashable

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import Generic, TypeVar

    T = TypeVar("T")
else:

    class Generic:
        """What a generic class is at run time: itself, whatever it is of."""

        __slots__ = ()
        __class_getitem__ = classmethod(lambda cls, _: cls)

    T = None

# A lock takes no more.
_LONGEST_SECONDS = TIMEOUT_MAX


class Flight(Generic[T]):
    """A call under way; it lands once, with a value, and everyone who waits gets that value."""

    __slots__ = ("_landed", "answer")

    def __init__(self) -> None:
        # A bare lock, held until the landing, is far cheaper to make than an Event.
        self._landed = allocate_lock()
        self._landed.acquire()
        self.answer: T | None = None

    def wait(self, seconds: float = _LONGEST_SECONDS) -> "T | None":
        """Wait for the landing; None if the call ended without an answer. Raises TimeoutError after *seconds*."""
        if not self._landed.acquire(timeout=max(0.0, min(seconds, _LONGEST_SECONDS))):
            raise TimeoutError
        self._landed.release()
        return self.answer

    def land(self, answer: "T | None") -> None:
        """Give everyone the answer."""
        self.answer = answer
        self._landed.release()


class Flights(Generic[T]):
    """The calls under way, by key; the caller holds a lock of its own around every method."""

    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: dict[Hashable, Flight[T]] = {}

    def find(self, key: Hashable) -> "Flight[T] | None":
        """The call under way for *key*, if any."""
        return self._under_way.get(key)

    def start(self, keys: tuple[Hashable, ...]) -> Flight[T]:
        """Begin a call known by each of *keys* that no other call has taken."""
        flight: Flight[T] = Flight()
        for key in keys:
            self._under_way.setdefault(key, flight)
        return flight

    def finish(self, keys: tuple[Hashable, ...], flight: Flight[T]) -> None:
        """Forget a call; the caller then lets it land."""
        for key in keys:
            if self._under_way.get(key) is flight:
                del self._under_way[key]
