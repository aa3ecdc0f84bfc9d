"""The progress of pulls on standard error: lines that are redrawn on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Self, TextIO

from keyferry._core.secrets import printable
from keyferry.cli.progress import Speed, amount_text, progress_line, shortened, size_text
from keyferry.pulls.layout.meter import Progress
from keyferry.pulls.puller.target import OnProgress
from keyferry.show.writer import LiveLines

__all__ = ["ProgressReporter"]

_TICK_SECONDS = 0.1
_LOG_SECONDS = 10.0
_SIGNS = "|/-\\"


class _Pull:
    """One pull that is reported."""

    def __init__(self, label: str, now: float) -> None:
        self.label = label
        self.begun = now
        self.said = now
        self.progress: Progress | None = None
        self.speed = Speed()

    def lines(self, now: float, columns: int, *, is_alone: bool) -> tuple[str, ...]:
        """Return what a terminal shows: one line, or if the pull is alone its name and the bar."""
        if self.progress is None:
            # A container runtime reports no bytes, and a registry has not answered yet.
            sign = _SIGNS[int((now - self.begun) / _TICK_SECONDS) % len(_SIGNS)]
            rest = f": {now - self.begun:.0f} s"
            return (f"{sign} pulling {shortened(self.label, columns - len(rest) - 10)}{rest}",)
        self.speed.note(now, self.progress.done)
        if not is_alone:
            return (progress_line(self.progress, self.speed.per_second, columns, self.label),)
        name = shortened(self.label, columns - len("pulling "))
        return (f"pulling {name}", progress_line(self.progress, self.speed.per_second, columns))


class ProgressReporter:
    """A context manager that reports pulls while they run; with *is_quiet*, it reports nothing.

    On a terminal, the lines are redrawn in place: two for a pull that *is_alone*, else one for each pull. Elsewhere
    there is one line at the start of a pull, and one every ten seconds while it lasts.
    """

    def __init__(
        self,
        *,
        is_quiet: bool,
        is_alone: bool,
        stream: TextIO | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._is_quiet = is_quiet
        self._is_alone = is_alone
        self._clock = clock
        self._is_drawn = not is_quiet and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._live = LiveLines(self._stream)
        self._lock = threading.Lock()
        self._under_way: list[_Pull] = []
        self._reached: dict[str, Progress] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._draw_on, daemon=True)

    @property
    def reached(self) -> dict[str, Progress]:
        """The progress of each pull that has begun to fetch, by the name of the image."""
        return self._reached

    def __enter__(self) -> Self:
        if self._is_drawn:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_drawn:
            self._done.set()
            self._thread.join()

    @contextmanager
    def reporting(self, image: str) -> Iterator[OnProgress]:
        """Report one pull for the length of a block; yield the callback for its progress."""
        pull = _Pull(printable(image), self._clock())
        if not self._is_quiet and not self._is_drawn:
            self._say(f"pulling {pull.label}")
        with self._lock:
            self._under_way.append(pull)
        try:
            yield lambda progress: self._take(pull, progress)
        finally:
            with self._lock:
                self._under_way.remove(pull)

    def _take(self, pull: _Pull, progress: Progress) -> None:
        with self._lock:
            is_first, pull.progress = pull.progress is None, progress
            self._reached[pull.label] = progress
            if self._is_quiet:
                return
            if is_first and 0 < progress.found < progress.total:
                amount = amount_text(progress.found, progress.total, " of ")
                self._say(f"{pull.label}: goes on from the {amount} that are already there")
            if not self._is_drawn:
                self._log(pull, progress)

    def _log(self, pull: _Pull, progress: Progress) -> None:
        """Print a line for a log, at most every ten seconds."""
        now = self._clock()
        pull.speed.note(now, progress.done)
        if now - pull.said < _LOG_SECONDS:
            return
        pull.said = now
        speed = pull.speed.per_second
        rate = f", {size_text(int(speed))}/s" if speed else ""
        layers = f"{progress.layers_done} of {progress.layers} layers"
        self._say(f"{pull.label}: {amount_text(progress.done, progress.total)}, {layers}{rate}")

    def _say(self, text: str) -> None:
        if self._is_drawn:
            self._live.say(text)
        else:
            print(text, file=self._stream, flush=True)

    def _draw_on(self) -> None:
        while not self._done.wait(_TICK_SECONDS):
            with self._lock:
                now, columns = self._clock(), self._live.columns
                lines = [
                    line
                    for pull in self._under_way
                    for line in pull.lines(now, columns, is_alone=self._is_alone)
                ]
                self._live.draw(lines)
        self._live.clear()
