"""A line on standard error that names what a command waits for, if it waits for more than a second."""

from __future__ import annotations

import os
import sys
from threading import Event, Thread
from time import monotonic

from keyferry._core.secrets import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["Waiting"]

_TICK_SECONDS = 1.0
_WIDTH = 80


class Waiting:
    """A context manager that shows *label* and the seconds on a terminal, and clears the line at the end.

    *limit_seconds* is the time limit of what is waited for, 0 if it is not known.
    """

    def __init__(
        self,
        label: str,
        limit_seconds: float = 0.0,
        *,
        stream: TextIO | None = None,
        tick_seconds: float = _TICK_SECONDS,
    ) -> None:
        self._label = printable(label)
        self._limit = f" of {limit_seconds:g}" if limit_seconds else ""
        self._stream = stream or sys.stderr
        self._tick_seconds = tick_seconds
        self._thread: Thread | None = None
        self._drawn = 0

    def __enter__(self) -> None:
        if self._label and self._stream.isatty():
            self._done = Event()
            self._thread = Thread(target=self._show, args=(self._done,), daemon=True)
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        self._done.set()
        self._thread.join()
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")

    def _show(self, done: Event) -> None:
        begun = monotonic()
        while not done.wait(self._tick_seconds):
            line = f"{self._label}, {monotonic() - begun:.0f} s{self._limit}"[: _columns() - 1]
            self._write("\r" + line.ljust(self._drawn))
            self._drawn = len(line)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _columns() -> int:
    """Return the width of the terminal: a longer line could not be redrawn."""
    try:
        return os.get_terminal_size(2).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH
