"""The --cache-duration flag: how long the kubelet may cache a response."""

from __future__ import annotations

from keyferry.sdk import ProvideError

__all__ = ["read_cache_duration"]

_NANOSECONDS = 1_000_000_000


def read_cache_duration(text: str) -> float | None:
    """Return the seconds of a duration such as ``10m``; None if it is empty and the provider's config decides."""
    if not text:
        return None
    from keyferry.api.meta import parse_duration
    from keyferry.errors import DurationError

    try:
        nanoseconds = parse_duration(text)
    except DurationError:
        nanoseconds = -1
    if nanoseconds < 0:
        raise ProvideError(
            f"--cache-duration: found {text[:40]!r}, expected a duration such as 10m, 1h or 0s"
        )
    return nanoseconds / _NANOSECONDS
