"""The clocks, as names that tests can replace, and the check of time limits."""

from __future__ import annotations

from time import monotonic_ns, time_ns

__all__ = ["check_timeout", "monotonic_ns", "time_ns"]


def check_timeout(timeout_seconds: float) -> None:
    """Raise ValueError if *timeout_seconds* is not more than 0."""
    if not timeout_seconds > 0:  # also true of NaN
        raise ValueError(f"timeout_seconds is {timeout_seconds}, expected more than 0")
