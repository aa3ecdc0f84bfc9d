"""The progress of a pull as one line of text that fits a width: a bar, layers, bytes, speed and time left."""

from __future__ import annotations

from math import ceil

from keyferry.pulls.request import Progress

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_FEWEST_CELLS, _MOST_CELLS = 6, 40
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
        cells = min(room - len(text) - len("[] "), _MOST_CELLS)
        if cells >= _FEWEST_CELLS:
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
