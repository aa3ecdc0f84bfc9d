"""Text for terminals: folded lines, sections, tables, marks, lines of a source text, durations."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from keyferry._core.secrets import printable
from keyferry.show.folding import display_width, fold_words
from keyferry.show.writer import RESET, Lines, style

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
# Of output that is not a terminal, and the most of a terminal: longer lines are hard to read.
_WIDTH, _WIDEST = 100, 120
_INDENT, _TITLE = 4, 10
_DOTS = "..."
_TAB = 4
# The fewest columns of a source line.
_NARROWEST_SOURCE = 20


class Whole(str):
    """A line that is not folded, because somebody copies it: a command."""

    __slots__ = ()


def text_width() -> int:
    """Return the number of columns for text: COLUMNS, else the terminal's, else 100."""
    return _given_columns() or min(_terminal_columns(), _WIDEST) or _WIDTH


def terminal_width() -> int:
    """Return the number of columns for what is not read as text, such as a table: all that the terminal has."""
    return _given_columns() or _terminal_columns() or _WIDTH


def terminal_rows() -> int:
    """Return the number of rows of the terminal, or 0 if there is none."""
    try:
        return os.get_terminal_size(1).lines if sys.stdout.isatty() else 0
    except (OSError, ValueError):
        return 0


def _given_columns() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isascii() and given.isdigit() else 0


def _terminal_columns() -> int:
    try:
        # Not the descriptor of sys.stdout, which need not have one.
        return os.get_terminal_size(1).columns if sys.stdout.isatty() else 0
    except (OSError, ValueError):
        return 0


def fold(text: str, first: str = "", rest: str = "", *, width: int | None = None) -> Iterator[str]:
    """Yield *text* in lines of at most *width* columns, by default those of the terminal.

    The first line follows *first* and the others *rest*. Words are not broken, so that they can be copied. A style that
    goes on in the next line ends with its line and starts anew, so that each line has its own.
    """
    lines = fold_words(text.split(" "), first, rest, text_width() if width is None else width)
    return _styled_alone(lines) if "\033" in text else lines


def _styled_alone(lines: Iterable[str]) -> Iterator[str]:
    going_on = ""
    for line in lines:
        bare = line.lstrip(" ")
        styled = f"{line[: len(line) - len(bare)]}{going_on}{bare}"
        start = styled.rfind("\033")
        going_on = styled[start : styled.index("m", start) + 1] if start >= 0 else ""
        going_on = "" if going_on == RESET else going_on
        yield styled + RESET if going_on else styled


def fold_help(text: str, width: int) -> str:
    """Return a help text with its paragraphs folded to *width*.

    An indented line is folded below its second column if it has one; else it is an example, and is left as it is.
    """
    return "\n\n".join("\n".join(_help_block(block, width)) for block in text.split("\n\n"))


def _help_block(block: str, width: int) -> Iterator[str]:
    paragraph: list[str] = []
    for line in (*block.split("\n"), " "):
        if line and not line.startswith(" "):
            paragraph.append(line)
            continue
        if paragraph:
            yield from fold(" ".join(paragraph), width=width)
            paragraph = []
        if line != " ":
            yield from _help_row(line, width)


def _help_row(line: str, width: int) -> Iterator[str]:
    name, gap, text = line.strip().partition("  ")
    first = line[: len(line) - len(text.lstrip())] if gap else line
    yield from fold(text.lstrip(), first, " " * len(first), width=width) if gap and name else (line,)


def sections(parts: Iterable[tuple[str, Iterable[str]]]) -> Lines:
    """Return each title with its lines, which must be printable; a title without lines is left out.

    Titles are folded, and so are lines unless they are Whole: below the text after a mark or a number, and else a
    little to the right of their own indent. A single line is a paragraph, and is folded below its indent.
    """
    filled = ((title, _block(list(lines))) for title, lines in parts)
    blocks = ("\n".join((*fold(style(title.upper(), "bold")), *lines)) for title, lines in filled if lines)
    return Lines("\n\n".join(blocks))


def _block(lines: list[str]) -> list[str]:
    hang = "  " if len(lines) > 1 else ""
    return [part for line in lines for part in _indented(line, hang)]


def _indented(line: str, hang: str) -> Iterator[str]:
    if isinstance(line, Whole):
        yield f"  {line}"
        return
    text = line.lstrip(" ")
    lead, space, after = text.partition(" ")
    indent = "  " + " " * (len(line) - len(text))
    if space and (display_width(lead) == 1 or lead.rstrip(".").isdigit()):
        yield from fold(after, f"{indent}{lead} ", f"{indent}{'':{display_width(lead)}} ")
    else:
        yield from fold(text, indent, indent + hang)


def wrap(title: str, text: str) -> Iterator[str]:
    """Yield the lines of a paragraph beside its title."""
    first = f"{'':{_INDENT}}{title:<{_TITLE}}"
    yield from fold(printable(text), first, " " * len(first))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    """Return a table whose columns are as wide as their widest cell."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(display_width(row[at]) for row in cells) for at in range(len(header))]
    lines = ("   ".join(map(_padded, row, widths)) for row in cells)
    return Lines("\n".join(line.rstrip() for line in lines))


def fitting_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    """Return a table; on a terminal that is too narrow for it, each row as a paragraph with a line for each cell."""
    shown = table(header, rows)
    if not sys.stdout.isatty() or max(map(display_width, shown.split("\n"))) <= terminal_width():
        return shown
    return Lines("\n\n".join("\n".join(_paragraph(header, row)) for row in rows))


def _paragraph(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """Yield the first cell, and each other one after the name of its column; a mark in front is the first's."""
    if row[0] in ("", "*"):
        header, row = header[1:], (f"{row[0]} {row[1]}".strip(), *row[2:])
    yield printable(row[0])
    width = max(map(len, header))
    for name, cell in zip(header[1:], row[1:], strict=True):
        first = f"  {name:<{width}}  "
        yield from fold(printable(cell), first, " " * len(first))


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - display_width(cell))


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


def source_frame(line: str, number: int, column: int, length: int, width: int) -> tuple[str, str, str]:
    """Return a blank line, the source line with its number, and the line that marks *length* characters at *column*.

    Numbers and columns begin at 1. A line that is wider than *width* is cut around the mark.
    """
    gutter = len(str(number))
    room = max(width - gutter - 3, _NARROWEST_SOURCE)
    at, end = min(column - 1, len(line)), min(column - 1 + max(length, 1), max(len(line), column))
    before, marked, after = (_shown(part) for part in (line[:at], line[at:end], line[end:]))
    before, marked, after = _cut(before, marked, after, room)
    mark = "^" * max(display_width(marked), 1)
    blank, edge = " " * gutter, " " * display_width(before)
    return (
        f"{blank} |",
        f"{number} | {before}{marked}{after}".rstrip(),
        f"{blank} | {edge}{mark}",
    )


def _shown(text: str) -> str:
    return printable(text.replace("\t", " " * _TAB))


def _cut(before: str, marked: str, after: str, room: int) -> tuple[str, str, str]:
    """Return the three parts, cut so that together they are at most *room* columns wide."""
    if display_width(before + marked + after) <= room:
        return before, marked, after
    marked = _head(marked, room - 2 * len(_DOTS))
    left = room - display_width(marked)
    after = _head(after, max(left - min(display_width(before), left // 2), len(_DOTS)))
    left -= display_width(after)
    if display_width(before) > left:
        before = _DOTS + _tail(before, left - len(_DOTS))
    return before, marked, after


def _head(text: str, room: int) -> str:
    """Return the beginning of a text, with dots if it does not fit."""
    if display_width(text) <= room:
        return text
    return text[: _fitting(text, room - len(_DOTS))] + _DOTS


def _tail(text: str, room: int) -> str:
    return text[len(text) - _fitting(reversed(text), room) :]


def _fitting(chars: Iterable[str], room: int) -> int:
    """Return how many of the characters fit, in time that does not depend on the rest."""
    count = 0
    for char in chars:
        room -= display_width(char)
        if room < 0:
            break
        count += 1
    return count


def cut_middle(text: str, columns: int) -> str:
    """Return *text* on at most *columns*: of one that is too long, the beginning and the end."""
    if display_width(text) <= columns:
        return text
    room = max(columns - len(_DOTS), 2)
    end = _tail(text, room // 2)
    return f"{text[: _fitting(text, room - display_width(end))]}{_DOTS}{end}"


def duration_text(seconds: float) -> str:
    """Return a duration in at most two units."""
    whole, parts = round(abs(seconds)), []
    for size, unit in _UNITS:
        number, whole = divmod(whole, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "less than a second"
