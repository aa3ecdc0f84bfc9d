"""The dates of HTTP's header fields, and the pause that a server asks for."""

from __future__ import annotations

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon,", "Tue,", "Wed,", "Thu,", "Fri,", "Sat,", "Sun,")
_LENGTH = len("Sun, 06 Nov 1994 08:49:37 GMT")
_MAX_DIGITS = 12
_MAX_PAUSE_SECONDS = 999_999_999


def parse_date(text: str) -> float | None:
    """Return the Unix time of a date in the one form that servers send (IMF-fixdate, RFC 9110); None for other text."""
    day_name, day, month, year, clock, zone = (*text.split(" ", 5), *[""] * 6)[:6]
    numbers = [year, day, *clock.split(":")]
    if len(text) != _LENGTH or day_name not in _DAYS or month not in _MONTHS or zone != "GMT":
        return None
    if len(numbers) != 5 or not all(each.isascii() and each.isdigit() for each in numbers):
        return None
    from datetime import UTC, datetime

    of_year, of_month, hour, minute, second = map(int, numbers)
    number = _MONTHS.index(month) + 1
    try:
        return datetime(of_year, number, of_month, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def parse_retry_after(text: str, sent_at: float) -> int:
    """Return the seconds of a Retry-After field, 0 if it asks for none; a date in it counts from *sent_at*."""
    asked = text.strip()
    if asked.isascii() and asked.isdigit():
        return min(int(asked[:_MAX_DIGITS]), _MAX_PAUSE_SECONDS)
    until = parse_date(asked) if asked else None
    if until is None:
        return 0
    rounded_up = -int(-(until - sent_at) // 1)
    return max(0, min(rounded_up, _MAX_PAUSE_SECONDS))
