"""How long the kubelet may keep an answer, as the flag says."""

from keyferry.sdk import ProvideError

__all__ = ["read_cache_duration"]

_NANOSECONDS = 1_000_000_000


def read_cache_duration(text: str) -> float | None:
    """Seconds of a duration such as ``10m``; None where none is given, and the provider's config decides."""
    if not text:
        return None
    from keyferry.sdk.times import DurationError, parse_duration

    try:
        nanoseconds = parse_duration(text)
    except DurationError:
        nanoseconds = -1
    if nanoseconds < 0:
        raise ProvideError(
            f"--cache-duration: found {text[:40]!r}, expected a duration such as 10m, 1h or 0s"
        )
    return nanoseconds / _NANOSECONDS
