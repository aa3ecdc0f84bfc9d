"""One line of a source text with a mark below the place of a finding, as compilers show it."""

from __future__ import annotations

from unicodedata import combining, east_asian_width

from keyferry._core.secrets import printable

__all__ = ["source_frame"]

_TAB = 4
_DOTS = "..."
_NARROWEST = 20


def source_frame(line: str, number: int, column: int, length: int, width: int) -> tuple[str, str, str]:
    """Return a blank line, the source line with its number, and the line that marks *length* characters at *column*.

    Numbers and columns begin at 1. A line that is wider than *width* is cut around the mark.
    """
    gutter = len(str(number))
    room = max(width - gutter - 3, _NARROWEST)
    at, end = min(column - 1, len(line)), min(column - 1 + max(length, 1), max(len(line), column))
    before, marked, after = (_shown(part) for part in (line[:at], line[at:end], line[end:]))
    before, marked, after = _cut(before, marked, after, room)
    mark = "^" * max(_width(marked), 1)
    blank, edge = " " * gutter, " " * _width(before)
    return (
        f"{blank} |",
        f"{number} | {before}{marked}{after}".rstrip(),
        f"{blank} | {edge}{mark}",
    )


def _shown(text: str) -> str:
    return printable(text.replace("\t", " " * _TAB))


def _cut(before: str, marked: str, after: str, room: int) -> tuple[str, str, str]:
    """Return the three parts, cut so that together they are at most *room* columns wide."""
    if _width(before + marked + after) <= room:
        return before, marked, after
    marked = _head(marked, room - 2 * len(_DOTS))
    left = room - _width(marked)
    after = _head(after, max(left - min(_width(before), left // 2), len(_DOTS)))
    left -= _width(after)
    if _width(before) > left:
        before = _DOTS + _tail(before, left - len(_DOTS))
    return before, marked, after


def _head(text: str, room: int) -> str:
    """Return the beginning of a text, with dots if it does not fit."""
    if _width(text) <= room:
        return text
    while text and _width(text) > room - len(_DOTS):
        text = text[:-1]
    return text + _DOTS


def _tail(text: str, room: int) -> str:
    while text and _width(text) > room:
        text = text[1:]
    return text


def _width(text: str) -> int:
    """Return the number of columns that a terminal needs for *text*."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if combining(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
