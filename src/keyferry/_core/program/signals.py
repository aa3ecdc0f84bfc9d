"""Signals while a program is started: it must not be lost from sight, nor inherit what is blocked here."""

# What `signal` itself is made of: the same functions without the detour over enums, which takes twenty times as long.
import _signal  # type: ignore[import-not-found]  # typeshed does not list it
from _signal import NSIG, getsignal, signal
from os import getpid

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]

__all__ = ["HeldSignals", "NothingBlocked"]

# Not on Windows.
_CAN_BLOCK = hasattr(_signal, "pthread_sigmask")
if _CAN_BLOCK:
    from _signal import SIG_BLOCK, SIG_SETMASK, SIG_UNBLOCK, pthread_sigmask, sigpending


class NothingBlocked:
    """A block of code in which this thread blocks no signal, for a program inherits what it blocks.

    A signal that waits to be let through stays blocked: here is not the place for it to arrive.
    """

    __slots__ = ("_blocked",)

    def __enter__(self) -> None:
        self._blocked = pthread_sigmask(SIG_BLOCK, ()) if _CAN_BLOCK else ()
        if self._blocked:
            pthread_sigmask(SIG_UNBLOCK, self._blocked - sigpending())

    def __exit__(self, *_: object) -> None:
        if self._blocked:
            pthread_sigmask(SIG_SETMASK, self._blocked)


class HeldSignals:
    """A block of code in which no Python signal handler runs; what came meanwhile is handled at its end.

    The handler of Ctrl-C raises wherever the main thread is: also after a program was started and before its
    process id is kept, and then the program is nobody's and runs on. To block the signal does not help: another
    thread takes it, the exception is raised in the main thread all the same, and the program inherits the block.
    In other threads no handler runs, so that there is nothing to hold back.
    """

    __slots__ = ("_came", "_handlers", "_is_over", "_pid")

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._came: list[tuple[int, FrameType | None]] = []
        self._is_over = False
        self._pid = getpid()

    def __enter__(self) -> None:
        try:
            for number in range(1, NSIG):
                handler = getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal(number, self._note)
        except ValueError:
            self._handlers.clear()  # not the main thread
        except BaseException:
            self._release()
            raise

    def __exit__(self, *_: object) -> None:
        self._release()

    def _note(self, number: int, frame: "FrameType | None") -> None:
        # Over, and still asked: another handler raised while they were put back, and this one's turn did not come;
        # or another thread forked meanwhile, and in the child nobody puts anything back.
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
