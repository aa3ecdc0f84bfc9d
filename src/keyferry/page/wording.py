"""Instants, numbers and addresses as the page writes them. All times are UTC, as in the logs."""

from __future__ import annotations

from datetime import UTC, datetime

from keyferry._net.forms import encode_percent, encode_query

# Instants that a date cannot express, or that are so far away that nobody means a date.
_EARLIEST, _LATEST = 0, 253_402_300_799
# The most characters at the end of a name that are kept where there is no room for all of it.
_MAX_TAIL = 28


def instant_text(seconds: float) -> str:
    """Return an instant as text, to the second; ``no end`` if it lies beyond the year 9999."""
    moment = _moment(seconds)
    return "no end" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def instant_iso(seconds: float) -> str:
    """Return an instant for the ``datetime`` attribute, empty if it is no date."""
    moment = _moment(seconds)
    return "" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def clock_text(seconds: float, *, is_day: bool = False) -> str:
    """Return the time of an instant for an axis, or its day."""
    moment = _moment(seconds)
    return "" if moment is None else f"{moment:%b %d}" if is_day else f"{moment:%H:%M}"


def time_of_day(seconds: float, now: float) -> str:
    """Return the time of an instant to the second, with its day if that is not the day of *now*."""
    moment, present = _moment(seconds), _moment(now)
    if moment is None:
        return "no end"
    day = "" if present is not None and present.date() == moment.date() else f"{moment:%b %d} "
    return f"{day}{moment:%H:%M:%S}"


def percent_text(part: int, whole: int) -> str:
    """Return a part in percent, rounded down, so that only all of it is 100 %."""
    thousandths = part * 1000 // whole
    return f"{thousandths // 10} %" if thousandths % 10 == 0 else f"{thousandths / 10:.1f} %"


def base_name(program: str) -> str:
    """Return the last part of a program's path."""
    return program.rstrip("/").rpartition("/")[2] or program


def split_name(name: str) -> tuple[str, str]:
    """Return a name in two parts, of which the second is shown where there is no room for both: the end of its path.

    So the image is still seen where the name of the registry is long.
    """
    cut = name.rfind("/", 0, -1) + 1
    if not 0 < cut < len(name) or len(name) - cut > _MAX_TAIL:
        cut = max(0, len(name) - _MAX_TAIL)
    return name[:cut], name[cut:]


def count_text(number: int) -> str:
    """Return a number with separators between its thousands."""
    return f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: *many* is the plural if it is not *one* with an s."""
    return f"{count_text(number)} {one if number == 1 else many or one + 's'}"


def spell_word(word: str) -> str:
    """Return a word of the protocol as people write it: ``no-match`` is "no match"."""
    return word.replace("-", " ")


def link_to(*segments: str, **query: str) -> str:
    """Return the address of a view: the parts of its path, and the parameters that are not empty."""
    path = "/" + "/".join(encode_percent(_encodable(each)) for each in segments)
    given = {name: _encodable(text) for name, text in query.items() if text}
    return f"{path}?{encode_query(given)}" if given else path


def local_path(link: str) -> str:
    """Return *link* if it is a path of this page, else the path of the overview."""
    is_local = link.startswith("/") and not link.startswith("//") and "\\" not in link
    return link if is_local and link.isprintable() else "/"


def _encodable(text: str) -> str:
    """Return *text* without halves of pairs, which no address can have."""
    return text.encode("utf-8", "replace").decode()


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(int(seconds), UTC) if _EARLIEST <= seconds <= _LATEST else None
