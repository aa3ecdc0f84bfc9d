"""The progress of a pull on standard error: a bar on a terminal, a few plain lines elsewhere."""

import sys
from time import monotonic

from keyferry.pulls.layout.blobs import Progress

TYPE_CHECKING = False  # a literal: importing typing would slow down every start
if TYPE_CHECKING:
    from typing import Self, TextIO

__all__ = ["ProgressBar"]

_WIDTH = 30
_PAUSE_SECONDS = 0.1
_STEP_PERCENT = 25
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class ProgressBar:
    """A callable for a pull's ``on_progress``, and a context manager that clears its line at the end."""

    def __init__(self, label: str, stream: "TextIO | None" = None) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._due = 0.0
        self._step = 0
        self._drawn = 0

    def __call__(self, progress: Progress) -> None:
        """Show *progress*, on a terminal at most once every 0.1 s."""
        percent = 100 * progress.done // progress.total if progress.total else 100
        if not self._is_terminal:
            self._say(progress, percent)
        elif monotonic() >= self._due or progress.done >= progress.total:
            self._due = monotonic() + _PAUSE_SECONDS
            self._draw(progress, percent)

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")

    def _draw(self, progress: Progress, percent: int) -> None:
        full = _WIDTH * percent // 100
        bar = "#" * full + "." * (_WIDTH - full)
        line = f"{self._label} [{bar}] {percent:3d} % of {size_text(progress.total)}"
        self._write("\r" + line.ljust(self._drawn))
        self._drawn = len(line)

    def _say(self, progress: Progress, percent: int) -> None:
        if percent >= self._step:
            self._write(f"{self._label}: {percent} % of {size_text(progress.total)}\n")
            self._step = percent - percent % _STEP_PERCENT + _STEP_PERCENT

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def size_text(size: int) -> str:
    """Return a number of bytes with a unit, such as ``1.5 MiB``."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
