"""The clocks, as values that tests replace."""

from time import monotonic_ns, time_ns

__all__ = ["monotonic_ns", "time_ns"]
