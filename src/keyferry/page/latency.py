"""The histogram of a plugin's run times: bars, and the same in words."""

from __future__ import annotations

from collections.abc import Sequence

from keyferry._core.values import Value
from keyferry.page.model import LatencyBucket
from keyferry.page.wording import counted

__all__ = ["Latency", "LatencyBar", "draw_latency"]

_GAP = 2.0  # between bars, in percent of the picture's width
_LEAST = 4.0  # a bar that stands for a run is never too low to be seen


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
            height=_height(each.runs, highest),
            label=label,
            short=short,
            runs=each.runs,
        )
        for at, (each, (label, short)) in enumerate(zip(buckets, _labels(buckets), strict=True))
    )
    return Latency(bars=bars, summary=_summary(buckets, runs), description=_description(bars, runs))


def _height(runs: int, highest: int) -> float:
    return max(_LEAST, 100 * runs / highest) if runs else 0


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


def _summary(buckets: Sequence[LatencyBucket], runs: int) -> str:
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


def _description(bars: Sequence[LatencyBar], runs: int) -> str:
    parts = ", ".join(f"{each.runs} {each.label}" for each in bars if each.runs)
    return f"Duration of {counted(runs, 'run')}: {parts}"
