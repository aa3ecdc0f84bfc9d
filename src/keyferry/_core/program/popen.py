"""Start a program so that it is never lost from sight, and has nothing of ours but what it is given."""

# What `signal` itself is made of: the same functions without the detour over enums, which takes twenty times as long.
from _signal import NSIG, getsignal, signal  # type: ignore[import-not-found]  # typeshed does not list it
from os import getpid

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]
    Environ = Mapping[bytes, bytes] | Mapping[str, str]

__all__ = ["HeldSignals", "popen"]


def popen(
    argv: "Sequence[str]",
    streams: tuple[int, int, int],
    environ: "Environ | None",
    *,
    path: str | None = None,
    own_session: bool = True,
    kept_fds: "Sequence[int]" = (),
) -> "subprocess.Popen[bytes]":
    """Start a program, to be called under HeldSignals; raises OSError or ValueError if it cannot be started.

    No descriptor of ours reaches it beyond its three streams and *kept_fds*: they are closed in the new process,
    since a list of them made here would miss those that other threads make meanwhile. No signal is blocked in it,
    and none ignored by Python's doing.
    """
    from subprocess import Popen

    stdin, stdout, stderr = streams
    with _NothingBlocked():
        return Popen(
            argv,
            executable=path,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environ,
            close_fds=True,
            start_new_session=own_session,
            pass_fds=kept_fds,
        )


class _NothingBlocked:
    """A block of code in which this thread blocks no signal, for a program inherits what it blocks.

    A signal that waits to be let through stays blocked: here is not the place for it to arrive.
    """

    __slots__ = ("_blocked",)

    def __enter__(self) -> None:
        import signal

        self._blocked: set[int] = set()
        if hasattr(signal, "pthread_sigmask"):
            self._blocked = set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        if self._blocked:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._blocked - signal.sigpending())

    def __exit__(self, *_: object) -> None:
        import signal

        if self._blocked:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)


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
