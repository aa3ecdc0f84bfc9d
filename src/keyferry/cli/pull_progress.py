"""The progress of pulls while they run, and pulls in parallel that an interrupt ends without waiting for them.

Progress is lines that are redrawn on a terminal, and a few plain lines elsewhere.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Self, TextIO, TypeVar

from keyferry._core.secrets import printable
from keyferry.images.reference import ImageName
from keyferry.pulls.request import OnProgress, Progress
from keyferry.show.writer import LiveLines

_Result = TypeVar("_Result")

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_MIN_CELLS, _MAX_CELLS = 6, 40
_GAP = "  "
_FIRST_SECONDS = 1.0
_WINDOW_SECONDS = 5.0
_SAMPLE_SECONDS = 0.1
_MINUTE, _HOUR = 60, 3600


class Speed:
    """The speed of a pull over the last seconds; not known before the first second has passed."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, int]] = []

    def note(self, now: float, done: int) -> None:
        """Take note of the bytes that are done at the time *now*, in seconds."""
        if self._samples and done < self._samples[-1][1]:
            self._samples.clear()  # bytes were discarded
        if len(self._samples) > 1 and now - self._samples[-2][0] < _SAMPLE_SECONDS:
            self._samples.pop()
        self._samples.append((now, done))
        while len(self._samples) > 1 and self._samples[1][0] <= now - _WINDOW_SECONDS:
            self._samples.pop(0)

    @property
    def per_second(self) -> float | None:
        """The bytes per second, or None if it is not known yet."""
        if not self._samples:
            return None
        (begun, first), (now, last) = self._samples[0], self._samples[-1]
        return (last - first) / (now - begun) if now - begun >= _FIRST_SECONDS else None


def progress_line(progress: Progress, per_second: float | None, columns: int, label: str = "") -> str:
    """Return the line; if it has a *label*, at most 2/5 of the line are for it. The narrower, the fewer figures."""
    name = shortened(label, max(2 * columns // 5, 8)) + _GAP if label else ""
    room = columns - len(name)
    texts = [_GAP.join(filter(None, figures)) for figures in _choices(progress, per_second)]
    for text in texts:
        cells = min(room - len(text) - len("[] "), _MAX_CELLS)
        if cells >= _MIN_CELLS:
            return f"{name}[{_bar(progress, cells)}] {text}"
    # The bytes are worth more than a bar.
    return (name + next((text for text in texts if len(text) <= room), _percent(progress)))[:columns]


def _choices(progress: Progress, per_second: float | None) -> tuple[tuple[str, ...], ...]:
    """Return the figures to show, all of them first, then fewer and fewer."""
    percent, amount = _percent(progress), amount_text(progress.done, progress.total)
    layers = f"{progress.layers_done}/{progress.layers}"
    speed = f"{size_text(int(per_second))}/s" if per_second else ""
    left = _time_left(progress, per_second)
    return (
        (percent, f"{layers} layers", amount, speed, left),
        (percent, layers, amount, speed, left),
        (percent, layers, amount, left),
        (percent, amount, left),
    )


def _percent(progress: Progress) -> str:
    return f"{100 * progress.done // progress.total if progress.total else 100:3d} %"


def _time_left(progress: Progress, per_second: float | None) -> str:
    if not per_second or progress.done >= progress.total:
        return ""
    seconds = ceil((progress.total - progress.done) / per_second)
    if seconds < _MINUTE:
        return f"{seconds} s left"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min left"
    return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE} min left"


def _bar(progress: Progress, cells: int) -> str:
    full = cells * progress.done // progress.total if progress.total else cells
    return "#" * full + "." * (cells - full)


def shortened(label: str, most: int) -> str:
    """Return the end of a label that is too long: it says which image it is."""
    return label if len(label) <= most else "..." + label[len(label) - most + 3 :]


def amount_text(done: int, total: int, between: str = "/") -> str:
    """Return a part of a number of bytes, in the unit of the whole, such as ``0.5/1.5 MiB``."""
    unit, name = next(((unit, name) for unit, name in _UNITS if total >= unit), _UNITS[-1])
    digits = 0 if unit == 1 else 1
    return f"{done / unit:.{digits}f}{between}{total / unit:.{digits}f} {name}"


def size_text(size: int) -> str:
    """Return a number of bytes with a unit, such as ``1.5 MiB``."""
    for unit, name in _UNITS[:-1]:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


# The pulls that run.

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


# Parallel pulls.

_GRACE_SECONDS = 1.0
_WAIT_SECONDS = 0.2


def run_in_parallel(
    number: int,
    work: Callable[[ImageName], _Result],
    images: Sequence[ImageName],
    cancel: Callable[[], None],
) -> tuple[_Result, ...]:
    """Call *work* for each image, *number* at a time; return the results in the order of the images.

    After an interrupt or error, *cancel* is called. Threads that do not end within a second end with the process.
    """
    todo: SimpleQueue[tuple[int, ImageName]] = SimpleQueue()
    done: SimpleQueue[tuple[int, _Result | BaseException]] = SimpleQueue()
    for each in enumerate(images):
        todo.put(each)
    # Not an executor's threads: at its exit Python waits for those, however long a server takes.
    threads = [threading.Thread(target=_serve, args=(work, todo, done), daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        return _collect(done, len(images))
    except BaseException:
        cancel()
        until = monotonic() + _GRACE_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))
        raise


def _serve(
    work: Callable[[ImageName], _Result],
    todo: SimpleQueue[tuple[int, ImageName]],
    done: SimpleQueue[tuple[int, _Result | BaseException]],
) -> None:
    while True:
        try:
            at, image = todo.get_nowait()
        except Empty:
            return
        try:
            done.put((at, work(image)))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            done.put((at, error))


def _collect(done: SimpleQueue[tuple[int, _Result | BaseException]], number: int) -> tuple[_Result, ...]:
    results: dict[int, _Result] = {}
    while len(results) < number:
        try:
            # A signal that arrives right before the wait is handled only after it, so each wait is short.
            at, result = done.get(timeout=_WAIT_SECONDS)
        except Empty:
            continue
        if isinstance(result, BaseException):
            raise result
        results[at] = result
    return tuple(results[at] for at in range(number))
