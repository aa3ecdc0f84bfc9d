"""Marks before lines for people, in Unicode where the output can encode them, and in ASCII elsewhere."""

from __future__ import annotations

import sys
from enum import StrEnum

from keyferry.show.writer import style

__all__ = ["Mark", "mark"]


class Mark(StrEnum):
    """The meanings of marks."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    WARNING = "warning"
    INFO = "info"
    SKIPPED = "skipped"
    NEXT = "next"


# In Unicode, in ASCII, and its styles.
_MARKS = {
    Mark.YES: ("✓", "+", ("green", "bold")),
    Mark.NO: ("✗", "x", ("red", "bold")),
    Mark.UNKNOWN: ("?", "?", ("yellow", "bold")),
    Mark.WARNING: ("!", "!", ("yellow", "bold")),
    Mark.INFO: ("i", "i", ("cyan",)),
    Mark.SKIPPED: ("-", "-", ("dim",)),
    Mark.NEXT: ("→", ">", ("cyan", "bold")),
}


def mark(meaning: Mark) -> str:
    """Return the mark, one column wide, in its colour if standard output takes colours."""
    unicode, plain, styles = _MARKS[meaning]
    return style(unicode if _encodes(unicode) else plain, *styles)


def _encodes(text: str) -> bool:
    """Return whether standard output can encode *text*."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
