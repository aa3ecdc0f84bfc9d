"""Instants and ages as text for people, in this machine's time zone."""

from __future__ import annotations

import time

from keyferry.show.text import duration_text

__all__ = ["age_text", "clock_text"]

_DAY_SECONDS = 86_400
# Clocks of one cluster differ by less.
_SKEW_SECONDS = 60


def age_text(at: float, now: float) -> str:
    """Return how long ago an instant was, a second at least: ``12 s ago``; an instant to come shows another clock."""
    if at > now + _SKEW_SECONDS:
        return f"{duration_text(at - now)} ahead of this machine's clock"
    return f"{duration_text(max(1.0, now - at))} ago"


def clock_text(at: float, now: float) -> str:
    """Return the time of day of an instant, with its date if it is not within a day of *now*."""
    is_near = abs(now - at) < _DAY_SECONDS and time.localtime(at).tm_yday == time.localtime(now).tm_yday
    return time.strftime("%H:%M:%S" if is_near else "%Y-%m-%d %H:%M:%S", time.localtime(at))
