"""The pictures of a plugin's runs: the last ones, each a bar, and the histogram of how long all of them took."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from keyferry._core.values import Value
from keyferry.page.model import LatencyBucket, RunMark
from keyferry.page.wording import clock_text, counted
from keyferry.show.text import duration_text

_GAP = 2.0  # between the bars of a histogram, in percent of its width
_MIN_BAR_HEIGHT = 4.0  # a bar that stands for a run is never too low to be seen
_STRIP = 20
_STRIP_GAP = 1.2
# The durations of the lowest and of the highest bar of a run that worked, and their heights; failures are higher.
_QUICK_SECONDS, _SLOW_SECONDS = 0.01, 60.0
_QUICK_HEIGHT, _SLOW_HEIGHT = 20.0, 70.0


class StripBar(Value):
    """One run: its place and height in percent of the picture, whether it failed, and what it was in words."""

    left: float
    width: float
    height: float
    has_failed: bool
    label: str


class Strip(Value):
    """The picture of the last runs, the newest at the right, and what it shows in words."""

    bars: tuple[StripBar, ...]
    failed: int
    summary: str


def draw_strip(recent: Sequence[RunMark]) -> Strip | None:
    """Return the last runs as bars: the longer a run took, the higher, and one that failed is the highest."""
    shown = recent[-_STRIP:]
    if not shown:
        return None
    share = 100 / _STRIP
    bars = tuple(
        StripBar(
            left=round((_STRIP - len(shown) + at) * share + _STRIP_GAP / 2, 2),
            width=round(share - _STRIP_GAP, 2),
            height=100.0 if each.has_failed else _strip_height(each.seconds),
            has_failed=each.has_failed,
            label=_run_text(each),
        )
        for at, each in enumerate(shown)
    )
    failed = sum(each.has_failed for each in shown)
    return Strip(bars=bars, failed=failed, summary=_strip_summary(len(shown), failed))


def _strip_summary(number: int, failed: int) -> str:
    if number == 1:
        return "the only run failed" if failed else "the only run worked"
    if failed in (0, number):
        return f"the last {number} runs {'failed' if failed else 'worked'}"
    return f"{failed} of the last {number} runs failed"


def _strip_height(seconds: float) -> float:
    bounded = min(max(seconds, _QUICK_SECONDS), _SLOW_SECONDS)
    part = log(bounded / _QUICK_SECONDS) / log(_SLOW_SECONDS / _QUICK_SECONDS)
    return round(_QUICK_HEIGHT + (_SLOW_HEIGHT - _QUICK_HEIGHT) * part, 1)


def _run_text(run: RunMark) -> str:
    took = duration_text(run.seconds) if run.seconds >= 1 else f"{run.seconds * 1000:.0f} ms"
    return f"{clock_text(run.at)} UTC: {'failed after' if run.has_failed else 'took'} {took}"


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
