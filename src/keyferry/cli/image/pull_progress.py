"""The progress of pulls on standard error: a bar of bytes, a clock, or plain lines."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from keyferry._core.secrets import printable
from keyferry.cli.frame.progress import ProgressBar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from keyferry.pulls.puller.target import OnProgress

__all__ = ["ProgressReporter"]

_TICK_SECONDS = 0.1
_SIGNS = "|/-\\"


class ProgressReporter:
    """A reporter of pulls: of bytes if *has_bytes*, on one changing line if *is_alone* on a terminal."""

    def __init__(
        self, *, is_quiet: bool, has_bytes: bool, is_alone: bool, stream: "TextIO | None" = None
    ) -> None:
        self._stream = stream or sys.stderr
        self._is_quiet = is_quiet
        self._has_bytes = has_bytes
        self._is_drawn = is_alone and self._stream.isatty()

    @contextmanager
    def reporting(self, image: str) -> "Iterator[OnProgress | None]":
        """Report one pull for the length of a block; yield the callback for its bytes, or None."""
        label = printable(image)
        if self._is_quiet:
            yield None
        elif not self._is_drawn:
            yield from self._plain_lines(label)
        elif self._has_bytes:
            with ProgressBar(label, self._stream) as bar:
                yield bar
        else:
            with _clock(label, self._stream):
                yield None

    def _plain_lines(self, label: str) -> "Iterator[OnProgress | None]":
        """Print one line at the start; off a terminal, a bar adds a few plain lines."""
        print(f"pulling {label}", file=self._stream, flush=True)
        yield ProgressBar(label, self._stream) if self._has_bytes and not self._stream.isatty() else None


@contextmanager
def _clock(label: str, stream: "TextIO") -> Iterator[None]:
    """Show a turning sign and the seconds, because a container runtime reports no progress."""
    done = threading.Event()
    thread = threading.Thread(target=_turn, args=(label, stream, done.wait), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _turn(label: str, stream: "TextIO", wait: Callable[[float], bool]) -> None:
    begun, turns, line = monotonic(), 0, ""
    while not wait(_TICK_SECONDS):
        line = f"{_SIGNS[turns % len(_SIGNS)]} pulling {label}: {monotonic() - begun:.0f} s"
        stream.write(f"\r{line}")
        stream.flush()
        turns += 1
    if line:
        stream.write("\r" + " " * len(line) + "\r")
        stream.flush()
