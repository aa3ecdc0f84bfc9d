"""Signal handling while a program is started: its process id is not lost, and it inherits no blocked signals."""

# The functions behind `signal`, without its conversion to enums, which takes twenty times as long.
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed does not list it
from _signal import NSIG, getsignal, signal
from itertools import compress
from os import getpid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]

__all__ = ["HeldSignals", "NothingBlocked", "are_any_blocked"]

_NUMBERS = range(1, NSIG)
# False on Windows.
_CAN_BLOCK = hasattr(_signal, "pthread_sigmask")
if _CAN_BLOCK:
    from _signal import SIG_BLOCK, SIG_SETMASK, SIG_UNBLOCK, pthread_sigmask, sigpending


def are_any_blocked() -> bool:
    """Return whether this thread blocks a signal."""
    return _CAN_BLOCK and bool(pthread_sigmask(SIG_BLOCK, ()))


class NothingBlocked:
    """A block of code in which this thread blocks no signal, because a new program inherits the blocked signals.

    A pending signal stays blocked, so that it is not delivered here. Use it under HeldSignals: a handler that raises
    at its beginning or end would leave signals unblocked.
    """

    __slots__ = ("_blocked",)

    def __enter__(self) -> None:
        self._blocked = pthread_sigmask(SIG_BLOCK, ())
        pthread_sigmask(SIG_UNBLOCK, self._blocked - sigpending())

    def __exit__(self, *_: object) -> None:
        pthread_sigmask(SIG_SETMASK, self._blocked)


class HeldSignals:
    """A block of code in which no Python signal handler runs; signals that arrive are handled at its end.

    The handler of Ctrl-C raises wherever the main thread is. If that is after a program was started and before its
    process id is stored, the program runs on and nobody can terminate it. Blocking the signal does not help: another
    thread receives it, the exception is raised in the main thread nevertheless, and the program inherits the block. In
    other threads no handler runs, so there is nothing to hold.
    """

    __slots__ = ("_came", "_handlers", "_is_over", "_pid")

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._came: list[tuple[int, FrameType | None]] = []
        self._is_over = False
        self._pid = getpid()

    def __enter__(self) -> None:
        try:
            # Without a loop in Python over all signals, of which hardly any has a handler.
            for number in compress(_NUMBERS, map(callable, map(getsignal, _NUMBERS))):
                self._handlers[number] = getsignal(number)
                signal(number, self._note)
        except ValueError:
            self._handlers.clear()  # not the main thread
        except BaseException:
            self._release()
            raise

    def __exit__(self, *_: object) -> None:
        self._release()

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Called after the end: another handler raised while the handlers were restored, and this one was not restored;
        # or another thread forked meanwhile, and in the child nothing is restored.
        if self._is_over or getpid() != self._pid:
            self._handlers[number](number, frame)
        else:
            self._came.append((number, frame))

    def _release(self) -> None:
        try:
            for number, handler in self._handlers.items():
                signal(number, handler)
        finally:
            self._is_over = True
            self._deliver()

    def _deliver(self) -> None:
        if self._came:
            number, frame = self._came.pop(0)
            try:
                self._handlers[number](number, frame)
            finally:
                self._deliver()
