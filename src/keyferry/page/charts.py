"""The timeline of cached answers: an axis, a bar for each answer, and how many end or are renewed when.

Places are in percent of the picture's width, so that a browser can draw it at any size without a script. An axis that
fits is logarithmic, before and after the present, so that answers of minutes and of days are seen on one; one of a
chosen length is even. Axes move in steps: pictures of two instants that are close together are equal, and a page that
is kept up to date is not sent again each second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import log1p

from keyferry._core.values import Value, replace
from keyferry.page.model import Life
from keyferry.page.wording import clock_text, instant_text

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# The lengths of axis that can be chosen; the empty one fits what is shown.
SPANS = {"": 0, "15m": 15 * _MINUTE, "1h": _HOUR, "6h": 6 * _HOUR, "24h": _DAY, "7d": 7 * _DAY}
_STEPS = (
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 30, 91)),
)
# The marks of a logarithmic axis, on each side of the present.
_MARKS = (
    (_MINUTE, "1 min"),
    (5 * _MINUTE, "5 min"),
    (15 * _MINUTE, "15 min"),
    (_HOUR, "1 h"),
    (4 * _HOUR, "4 h"),
    (12 * _HOUR, "12 h"),
    *((days * _DAY, f"{days} d") for days in (1, 3, 7, 30)),
)
_MAX_TICKS = 7
_LONGEST = _DAY  # on each side of now, on an even axis that shows one whole life
# The least and the most that a logarithmic axis shows before and after the present, and between which places the
# present is on it, by how much there is on each side.
_LEAST_PAST, _MOST_PAST = _MINUTE, 7 * _DAY
_LEAST_FUTURE, _MOST_FUTURE = 5 * _MINUTE, 30 * _DAY
_FIRST_NOW_AT, _LAST_NOW_AT = 8.0, 40.0
_LOG_STEP = 15
_NOW_STEPS = 200
_COLUMNS = 60
_MIN_HEIGHT = 6.0
# How far apart labels have to be, in percent of the width: on a screen of any width, and on a wide one.
_APART, _WIDE_APART = 18.0, 9.5


class Tick(Value):
    """A time on the axis: its place and its text, which is empty where there is no room for it.

    *is_extra* tells that there is room for the text on a wide screen alone.
    """

    at: float
    label: str
    is_day: bool = False
    is_extra: bool = False


class Axis(Value):
    """A span of time and its ticks. *now_at* is the place of the present *now*, in steps."""

    start: float
    end: float
    ticks: tuple[Tick, ...]
    now: float
    now_at: float
    is_log: bool = False

    def at(self, instant: float) -> float:
        """Return the place of an instant: 0 to 100, what lies outside at the edge."""
        place = self._log_at(instant) if self.is_log else (instant - self.start) / (self.end - self.start)
        return round(min(100.0, max(0.0, 100 * place)), 2)

    def _log_at(self, instant: float) -> float:
        bounded, now_at = min(max(instant, self.start), self.end), self.now_at / 100
        if bounded < self.now:
            return now_at * (1 - _minutes(self.now - bounded) / _minutes(self.now - self.start))
        return now_at + (1 - now_at) * _minutes(bounded - self.now) / _minutes(self.end - self.now)


def _minutes(seconds: float) -> float:
    return log1p(seconds / _MINUTE)


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
    """Return an even axis of the length *span*, a quarter of it in the past, or a logarithmic one that fits *lives*.

    With *is_whole* it is even, and the lives are seen from their beginning.
    """
    length = SPANS.get(span, 0)
    if length:
        return _even_axis(now - length / 4, now + length * 3 / 4, now, max(1, length // 48))
    edges = [(each.got, each.expires) for each in lives]
    return _whole_axis(edges, now) if is_whole else _log_axis(edges, now)


def _log_axis(edges: Sequence[tuple[float, float]], now: float) -> Axis:
    at = now // _LOG_STEP * _LOG_STEP
    past = max((at - got for got, _ in edges), default=0.0)
    future = max((expires - at for _, expires in edges), default=0.0)
    past = min(max(past, _LEAST_PAST), _MOST_PAST)
    future = min(max(future, _LEAST_FUTURE), _MOST_FUTURE)
    share = 100 * _minutes(past) / (_minutes(past) + _minutes(future))
    bare = Axis(
        start=at - past,
        end=at + future,
        ticks=(),
        now=at,
        now_at=float(round(min(max(share, _FIRST_NOW_AT), _LAST_NOW_AT))),
        is_log=True,
    )
    # What there is room for is chosen in this order: the present, then from the ends inwards.
    marks = [Tick(at=bare.now_at, label="now")]
    for seconds, label in _MARKS[::-1]:
        if at + seconds <= bare.end:
            marks.append(Tick(at=bare.at(at + seconds), label=label))
        if at - seconds >= bare.start:
            marks.append(Tick(at=bare.at(at - seconds), label=f"\u2212{label}"))
    return replace(bare, ticks=tuple(_labelled(marks)))


def _whole_axis(edges: Sequence[tuple[float, float]], now: float) -> Axis:
    first = min((got for got, _ in edges), default=now - _HOUR)
    last = max((expires for _, expires in edges), default=now + 3 * _HOUR)
    end = min(max(last, now + 2 * _MINUTE), now + _LONGEST)
    return _even_axis(max(min(first, now - _MINUTE), now - _LONGEST), end, now)


def _even_axis(start: float, end: float, now: float, grain: int = 0) -> Axis:
    """Return an axis whose ends are rounded to the distance of its ticks, or to *grain*."""
    step = next((each for each in _STEPS if (end - start) / each <= _MAX_TICKS), _STEPS[-1])
    grain = grain or step
    start, end = start // grain * grain, -(-end // grain) * grain
    now_step = (end - start) / _NOW_STEPS
    now = now // now_step * now_step
    bare = Axis(start=start, end=end, ticks=(), now=now, now_at=0.0)
    marks = range(int(-(-start // step) * step), int(end) + 1, step)
    ticks = _labelled([_tick(bare, each, step) for each in marks])
    return replace(bare, ticks=tuple(ticks), now_at=bare.at(now))


def _labelled(ticks: Sequence[Tick]) -> Iterator[Tick]:
    """Yield *ticks*; those without room for their text beside the ones before them lose it."""
    kept: list[float] = []
    extra: list[Tick] = []
    for tick in ticks:
        if _is_apart(tick.at, kept, _APART):
            kept.append(tick.at)
            yield tick
        else:
            extra.append(tick)
    for tick in extra:
        has_room = _is_apart(tick.at, kept, _WIDE_APART)
        if has_room:
            kept.append(tick.at)
        yield replace(tick, is_extra=True) if has_room else replace(tick, label="")


def _is_apart(place: float, others: Iterable[float], distance: float) -> bool:
    return all(abs(place - each) >= distance for each in others)


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
    for life in lives:
        instant = life.expires if life.refresh_at is None else life.refresh_at
        if axis.start <= instant <= axis.end:
            counts = ended if life.refresh_at is None else renewed
            counts[min(int(axis.at(instant) * _COLUMNS / 100), _COLUMNS - 1)] += 1
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
