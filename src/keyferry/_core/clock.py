"""The clocks, as values that tests replace, and time limits."""

from time import monotonic_ns, time_ns

__all__ = ["check_timeout", "monotonic_ns", "time_ns"]


def check_timeout(timeout_seconds: float) -> None:
    """Raise ValueError for a time limit that leaves no time: a mistake in the program that gives it."""
    if not timeout_seconds > 0:  # so that it holds for NaN, too
        raise ValueError(f"timeout_seconds is {timeout_seconds}, expected more than 0")
