"""The page's pictures: the timeline of cached answers, and the histogram of a plugin's run times.

The timeline has an axis, a bar for each answer, and how many end or are renewed when. Places are in percent of the
picture's width, so that a browser can draw it at any size without a script. The axis moves in steps: pictures of two
instants that are close together are equal, and a page that is kept up to date is not sent again each second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keyferry._core.values import Value
from keyferry.page.model import LatencyBucket, Life
from keyferry.page.wording import clock_text, counted, instant_text

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# The lengths of axis that can be chosen; the empty one fits what is shown.
SPANS = {"": 0, "15m": 15 * _MINUTE, "1h": _HOUR, "6h": 6 * _HOUR, "24h": _DAY, "7d": 7 * _DAY}
_STEPS = (
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 30, 91)),
)
_MAX_TICKS = 7
_LONGEST = _DAY  # on each side of now, on an axis that fits
_NOW_STEPS = 200
_COLUMNS = 60
_MIN_HEIGHT = 6.0
_GAP = 2.0  # between the bars of a histogram, in percent of its width
_MIN_BAR_HEIGHT = 4.0  # a bar that stands for a run is never too low to be seen


class Tick(Value):
    """A time on the axis: its place and its text."""

    at: float
    label: str
    is_day: bool


class Axis(Value):
    """A span of time and its ticks. *now_at* is the place of the present, in steps."""

    start: float
    end: float
    ticks: tuple[Tick, ...]
    now_at: float

    def at(self, instant: float) -> float:
        """Return the place of an instant: 0 to 100, what lies outside at the edge."""
        return round(min(100.0, max(0.0, 100 * (instant - self.start) / (self.end - self.start))), 2)


class Bar(Value):
    """The bar of one answer: its life, the window in which it may be renewed, and the planned instant."""

    left: float
    width: float
    window_left: float | None
    window_width: float
    planned: float | None
    is_cut_left: bool
    is_cut_right: bool
    description: str


class Column(Value):
    """How many answers are renewed, and how many end without a renewal, in one part of the axis."""

    left: float
    width: float
    renewed: int
    ended: int
    renewed_height: float
    ended_height: float


def make_axis(lives: Iterable[Life], now: float, span: str = "", *, is_whole: bool = False) -> Axis:
    """Return an axis of the length *span*, a quarter of it in the past, or one that fits the *lives*.

    The past takes a third of an axis that fits, at most, unless *is_whole*.
    """
    length = SPANS.get(span, 0)
    start, end = (
        (now - length / 4, now + length * 3 / 4) if length else _fitting(lives, now, is_whole=is_whole)
    )
    step = next((each for each in _STEPS if (end - start) / each <= _MAX_TICKS), _STEPS[-1])
    grain = step if not length else max(1, length // 48)
    start, end = start // grain * grain, -(-end // grain) * grain
    unmarked = Axis(start=start, end=end, ticks=(), now_at=0.0)
    marks = range(int(-(-start // step) * step), int(end) + 1, step)
    now_step = (end - start) / _NOW_STEPS
    return Axis(
        start=start,
        end=end,
        ticks=tuple(_tick(unmarked, each, step) for each in marks),
        now_at=unmarked.at(now // now_step * now_step),
    )


def _fitting(lives: Iterable[Life], now: float, *, is_whole: bool) -> tuple[float, float]:
    edges = [(each.got, each.expires) for each in lives]
    first = min((got for got, _ in edges), default=now - _HOUR)
    last = max((expires for _, expires in edges), default=now + 3 * _HOUR)
    end = min(max(last, now + 2 * _MINUTE), now + _LONGEST)
    # What comes is more to the point than what was.
    past = _LONGEST if is_whole else (end - now) / 2
    return max(min(first, now - _MINUTE), now - past), end


def _tick(axis: Axis, instant: int, step: int) -> Tick:
    is_day = step >= _DAY or instant % _DAY == 0
    return Tick(at=axis.at(instant), label=clock_text(instant, is_day=is_day), is_day=is_day)


def draw_life(life: Life, axis: Axis) -> Bar:
    """Return the bar of *life*."""
    left, right = axis.at(life.got), axis.at(life.expires)
    window_left = None if life.refresh_from is None else axis.at(life.refresh_from)
    window_right = right if life.refresh_until is None else axis.at(life.refresh_until)
    return Bar(
        left=left,
        # A life that is short for the axis, or outside of it, is still seen.
        width=max(0.4, round(right - left, 2)),
        window_left=window_left,
        window_width=0.0 if window_left is None else max(0.0, round(window_right - window_left, 2)),
        planned=_inside(axis, life.refresh_at),
        is_cut_left=life.got < axis.start,
        is_cut_right=life.expires > axis.end,
        description=_life_description(life),
    )


def _inside(axis: Axis, instant: float | None) -> float | None:
    """Return the place of an instant, or None if it is not on the axis."""
    return None if instant is None or not axis.start <= instant <= axis.end else axis.at(instant)


def _life_description(life: Life) -> str:
    parts = [f"Got {instant_text(life.got)}"]
    if life.refresh_from is not None and life.refresh_until is not None:
        parts.append(
            f"may be renewed from {instant_text(life.refresh_from)} to {instant_text(life.refresh_until)}"
        )
    planned = life.refresh_at
    parts.append("no renewal is planned" if planned is None else f"renewal planned {instant_text(planned)}")
    parts.append(f"ends {instant_text(life.expires)}")
    return ", ".join(parts)


def draw_density(lives: Sequence[Life], axis: Axis) -> tuple[Column, ...]:
    """Return how many of the *lives* are renewed and end in each part of the axis; empty if none is inside."""
    renewed, ended = [0] * _COLUMNS, [0] * _COLUMNS
    length = (axis.end - axis.start) / _COLUMNS
    for life in lives:
        instant = life.expires if life.refresh_at is None else life.refresh_at
        if axis.start <= instant < axis.end:
            counts = ended if life.refresh_at is None else renewed
            counts[int((instant - axis.start) / length)] += 1
    highest = max(map(sum, zip(renewed, ended, strict=True)))
    share = 100 / _COLUMNS
    return tuple(
        Column(
            left=round(at * share + 0.15, 2),
            width=round(share - 0.3, 2),
            renewed=renewals,
            ended=ends,
            renewed_height=_column_height(renewals, highest),
            ended_height=_column_height(ends, highest),
        )
        for at, (renewals, ends) in enumerate(zip(renewed, ended, strict=True))
        if renewals or ends
    )


def _column_height(number: int, highest: int) -> float:
    return max(_MIN_HEIGHT, round(100 * number / highest, 1)) if number else 0.0


class LatencyBar(Value):
    """One bar: its place and size in percent of the picture, what it stands for, and how many runs."""

    left: float
    width: float
    height: float
    label: str
    short: str
    runs: int

    @property
    def middle(self) -> float:
        """The place of its middle."""
        return self.left + self.width / 2


class Latency(Value):
    """The picture: its bars from quick to slow, and what it shows in words."""

    bars: tuple[LatencyBar, ...]
    summary: str
    description: str


def draw_latency(buckets: Sequence[LatencyBucket]) -> Latency | None:
    """Return the histogram of *buckets*, or None if no run was counted."""
    runs = sum(each.runs for each in buckets)
    if not runs:
        return None
    highest, share = max(each.runs for each in buckets), 100 / len(buckets)
    bars = tuple(
        LatencyBar(
            left=at * share + _GAP / 2,
            width=share - _GAP,
            height=_bar_height(each.runs, highest),
            label=label,
            short=short,
            runs=each.runs,
        )
        for at, (each, (label, short)) in enumerate(zip(buckets, _labels(buckets), strict=True))
    )
    return Latency(
        bars=bars, summary=_latency_summary(buckets, runs), description=_latency_description(bars, runs)
    )


def _bar_height(runs: int, highest: int) -> float:
    return max(_MIN_BAR_HEIGHT, 100 * runs / highest) if runs else 0


def _labels(buckets: Sequence[LatencyBucket]) -> list[tuple[str, str]]:
    """Return two names of each bucket, by its limit; the last one is named by the limit before it."""
    found, before = [], _seconds(0)
    for each in buckets:
        limit = before if each.up_to_seconds is None else _seconds(each.up_to_seconds)
        is_last = each.up_to_seconds is None
        found.append((f"over {limit}", f">{limit}") if is_last else (f"up to {limit}", limit))
        before = limit
    return found


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


def _latency_summary(buckets: Sequence[LatencyBucket], runs: int) -> str:
    """Return the limits within which half and nearly all of the runs stayed."""
    half, most = (_quantile(buckets, runs, share) for share in (0.5, 0.95))
    if half is None:
        return f"most runs took {_labels(buckets)[-1][0]}"
    if most is None:
        return f"half within {half}, the slowest {_labels(buckets)[-1][0]}"
    return f"95 % within {most}" if half == most else f"half within {half}, 95 % within {most}"


def _quantile(buckets: Sequence[LatencyBucket], runs: int, share: float) -> str | None:
    """Return the limit within which this share of the runs stayed, or None if they did not stay within any."""
    so_far = 0
    for each in buckets:
        so_far += each.runs
        if so_far >= share * runs:
            return None if each.up_to_seconds is None else _seconds(each.up_to_seconds)
    return None


def _latency_description(bars: Sequence[LatencyBar], runs: int) -> str:
    parts = ", ".join(f"{each.runs} {each.label}" for each in bars if each.runs)
    return f"Duration of {counted(runs, 'run')}: {parts}"
