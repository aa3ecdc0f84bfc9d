"""Durations and times of the Kubernetes API, as integers in nanoseconds."""

from __future__ import annotations

from time import gmtime

from keyferry._core.gotext import quote_bytewise
from keyferry.errors import DurationError, TimeError

__all__ = [
    "decode_duration",
    "format_duration",
    "format_instant",
    "format_time",
    "parse_duration",
    "parse_time",
]

_MICROSECOND = 1_000
_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": _MICROSECOND,
    "\u00b5s": _MICROSECOND,  # micro sign
    "\u03bcs": _MICROSECOND,  # Greek mu
    "ms": _MILLISECOND,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_LIMIT = 1 << 63
# Go's zero time, the first instant of the year 1, which means that no time is set.
NO_TIME_NS = -62_135_596_800 * _SECOND
_EXPECTED_DURATION = "expected a Go duration such as '10m' or '1h30m' (units ns, us, ms, s, m, h)"

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_EXPECTED_TIME = "expected an RFC 3339 time such as '2006-01-02T15:04:05Z'"
# For each field: the separator before it, its text in Go's layout, least and most digits, range, name.
# A one-digit hour is accepted, as in Go. The day is checked last, since its range depends on month and year.
_FIELDS = (
    ("", "2006", 4, 4, 0, 9999, "year"),
    ("-", "01", 2, 2, 1, 12, "month"),
    ("-", "02", 2, 2, 0, 99, "day"),
    ("T", "15", 1, 2, 0, 23, "hour"),
    (":", "04", 2, 2, 0, 59, "minute"),
    (":", "05", 2, 2, 0, 59, "second"),
)
# Go accepts texts of any length. No valid text is this long, and parsing megabytes takes seconds.
MAX_TEXT = 1 << 14


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration in Go's syntax, or raise DurationError."""
    if len(text) > MAX_TEXT:
        shown = f"a text of {len(text)} characters"
        raise DurationError(f"{shown} is not a duration; {_EXPECTED_DURATION}", "time: invalid duration")
    position = 1 if text[:1] in ("-", "+") else 0
    if text[position:] == "0":
        return 0
    if position == len(text):
        raise _invalid_duration(text, "is not a duration")
    total = 0
    while position < len(text):
        nanoseconds, position = _parse_term(text, position)
        total += nanoseconds
        _check_limit(text, total, _LIMIT)
    if text[0] == "-":
        return -total
    _check_limit(text, total, _LIMIT - 1)
    return total


def format_duration(nanoseconds: int) -> str:
    """Return a duration as Go formats it: ``1h30m0s``, ``1.5s``, ``100ms``, ``0s``."""
    sign, size = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if size < _SECOND:
        return sign + _format_below_second(size)
    minutes, rest = divmod(size, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, 9) + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def decode_duration(value: object) -> int:
    """Return the nanoseconds of a duration in a decoded document, or raise DurationError; it must be a string."""
    if isinstance(value, str):
        return parse_duration(value)
    if value is None:
        raise _invalid_duration("", "is not a duration", shown="null")
    kind = json_type(value)
    message = f"{article(kind)} is not a duration; expected a string such as '10m' or '1h30m'"
    raise DurationError(message, f"json: cannot unmarshal {kind} into Go value of type string")


def parse_time(text: str) -> int:
    """Return the nanoseconds since 1970 of an RFC 3339 time, parsed as in Go, or raise TimeError."""
    if len(text) > MAX_TEXT:
        shown = f"a text of {len(text)} characters"
        raise TimeError(f"{shown} is not a time; {_EXPECTED_TIME}", "parsing time: cannot parse")
    position = 0
    numbers = []
    for field in _FIELDS:
        number, position = _parse_field(text, position, field)
        numbers.append(number)
    year, month, day, hour, minute, second = numbers
    nanoseconds, position = _parse_fraction(text, position)
    offset_seconds, position = _parse_offset(text, position)
    if position != len(text):
        raise _bad_time(text, "extra text: " + quote_bytewise(text[position:]))
    days = _days_since_epoch(year, month, 1)
    following = _days_since_epoch(year + month // 12, month % 12 + 1, 1)
    if not 1 <= day <= following - days:
        raise _bad_time(text, "day out of range")
    seconds = (((days + day - 1) * 24 + hour) * 60 + minute) * 60 + second - offset_seconds
    return seconds * _SECOND + nanoseconds


def format_instant(nanoseconds: int) -> str:
    """Return an instant in UTC with as many fractional digits as needed to parse it back without loss."""
    fraction = f".{nanoseconds % _SECOND:09d}".rstrip("0").rstrip(".")
    return f"{format_time(nanoseconds)[:-1]}{fraction}Z"


def format_time(nanoseconds: int) -> str:
    """Return an instant in UTC in whole seconds, as Kubernetes formats times."""
    moment = gmtime(nanoseconds // _SECOND)
    year = f"{'-' if moment.tm_year < 0 else ''}{abs(moment.tm_year):04d}"
    date = f"{year}-{moment.tm_mon:02d}-{moment.tm_mday:02d}"
    return f"{date}T{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}Z"


def _parse_term(text: str, start: int) -> tuple[int, int]:
    """Parse one number and its unit; return its nanoseconds and the position after it."""
    point = end = _digits_end(text, start)
    if text[point : point + 1] == ".":
        end = _digits_end(text, point + 1)
    whole, fraction = text[start:point], text[point + 1 : end]
    if not whole and not fraction:
        raise _invalid_duration(text, "is not a duration")
    amount = _parse_whole(text, whole)
    unit, end = _parse_unit(text, end)
    return amount * unit + _parse_part(fraction, unit), end


def _parse_whole(text: str, digits: str) -> int:
    significant = digits.lstrip("0")
    # The length is checked first, because int() refuses thousands of digits.
    amount = int(significant or "0") if len(significant) <= len(str(_LIMIT)) else _LIMIT + 1
    _check_limit(text, amount, _LIMIT)
    return amount


def _parse_part(digits: str, unit: int) -> int:
    """Return the nanoseconds of the digits after the point, computed in floating point as in Go."""
    amount, scale = 0, 1.0
    for digit in digits:
        longer = amount * 10 + int(digit)
        if amount > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        amount = longer
        scale *= 10
    return int(amount * (unit / scale))


def _parse_unit(text: str, start: int) -> tuple[int, int]:
    end = start
    while end < len(text) and text[end] not in ".0123456789":
        end += 1
    if end == start:
        message = f"{text!r} has a number without a unit; {_EXPECTED_DURATION}"
        raise DurationError(message, f"time: missing unit in duration {quote_bytewise(text)}")
    unit = text[start:end]
    if unit not in _UNITS:
        message = f"{text!r} has the unknown unit {unit!r}; {_EXPECTED_DURATION}"
        quoted = f"{quote_bytewise(unit)} in duration {quote_bytewise(text)}"
        raise DurationError(message, f"time: unknown unit {quoted}")
    return _UNITS[unit], end


def _check_limit(text: str, nanoseconds: int, limit: int) -> None:
    if nanoseconds > limit:
        raise _invalid_duration(text, "is longer than 292 years")


def _invalid_duration(text: str, why: str, shown: str = "") -> DurationError:
    message = f"{shown or repr(text)} {why}; {_EXPECTED_DURATION}"
    return DurationError(message, f"time: invalid duration {quote_bytewise(text)}")


def _format_below_second(size: int) -> str:
    if size == 0:
        return "0s"
    if size < _MICROSECOND:
        return f"{size}ns"
    return _decimal(size, 3) + "\u00b5s" if size < _MILLISECOND else _decimal(size, 6) + "ms"


def _decimal(amount: int, places: int) -> str:
    """Return *amount* with a decimal point *places* digits from the right, without trailing zeros."""
    whole, part = divmod(amount, 10**places)
    return f"{whole}.{part:0{places}d}".rstrip("0").rstrip(".")


def json_type(value: object) -> str:
    """Return the name of a JSON value's type, as Go's decoder prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


def article(noun: str) -> str:
    """Return *noun* with its indefinite article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _parse_field(text: str, start: int, field: tuple[str, str, int, int, int, int, str]) -> tuple[int, int]:
    before, layout, fewest, most, lowest, highest, name = field
    if not text.startswith(before, start):
        raise _unparsable_time(text, start, before)
    start += len(before)
    end = min(_digits_end(text, start), start + most)
    if end - start < fewest:
        raise _unparsable_time(text, start, layout)
    number = int(text[start:end])
    if not lowest <= number <= highest:
        raise _bad_time(text, f"{name} out of range")
    return number, end


def _parse_fraction(text: str, start: int) -> tuple[int, int]:
    end = _digits_end(text, start + 1)
    if text[start : start + 1] not in (".", ",") or end == start + 1:
        return 0, start
    return int(text[start + 1 : end][:9].ljust(9, "0")), end


def _parse_offset(text: str, start: int) -> tuple[int, int]:
    if text[start : start + 1] == "Z":
        return 0, start + 1
    zone = text[start : start + 6]
    digits = zone[1:3] + zone[4:]
    if zone[3:4] != ":" or _digits_end(digits, 0) != len("0700") or zone[0] not in "+-":
        raise _unparsable_time(text, start, "Z07:00")
    hours, minutes = int(zone[1:3]), int(zone[4:])
    # One more than the usual bounds, as in Go, which accepts +24:00 and +00:60.
    if hours > 24 or minutes > 60:
        name = "minute" if minutes > 60 else "hour"
        raise _bad_time(text, f"time zone offset {name} out of range")
    seconds = (hours * 60 + minutes) * 60
    return (-seconds if zone[0] == "-" else seconds), start + 6


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Return the days since 1970 in the Gregorian calendar; datetime does not support the year 0."""
    # The year starts in March here, so that the leap day is its last day.
    year -= month < 3  # March
    days_before_month = (153 * ((month + 9) % 12) + 2) // 5
    return 365 * year + year // 4 - year // 100 + year // 400 + days_before_month + day - 719_469


def _digits_end(text: str, start: int) -> int:
    """Return the end of the ASCII digits that begin at *start*."""
    end = start
    while end < len(text) and text[end] in "0123456789":
        end += 1
    return end


def _bad_time(text: str, why: str) -> TimeError:
    message = f"{text!r} is not a time: {why}; {_EXPECTED_TIME}"
    return TimeError(message, f"parsing time {quote_bytewise(text)}: {why}")


def _unparsable_time(text: str, start: int, element: str) -> TimeError:
    rest = text[start:]
    message = f"{text!r} is not a time: found {rest!r} in place of {element!r}; {_EXPECTED_TIME}"
    tried = f"parsing time {quote_bytewise(text)} as {quote_bytewise(_LAYOUT)}"
    return TimeError(message, f"{tried}: cannot parse {quote_bytewise(rest)} as {quote_bytewise(element)}")
