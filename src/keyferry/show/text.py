"""Text for terminals: sections with titles, lines that are folded to the terminal's width, durations."""

from __future__ import annotations

import os
import sys

from keyferry._core.secrets import printable
from keyferry.show.writer import RESET, Lines, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "Whole",
    "display_width",
    "duration_text",
    "fold",
    "fold_help",
    "sections",
    "terminal_width",
    "text_width",
    "wrap",
]

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
# Of output that is not a terminal, and the most of a terminal: longer lines are hard to read.
_WIDTH, _WIDEST = 100, 120
# The fewest columns of text beside an indent: on a narrower terminal, the indent is reduced.
_NARROWEST = 24
_INDENT, _TITLE = 4, 10
# Characters from here on may take two columns, or none; keyferry's own marks take one.
_FIRST_UNUSUAL, _NARROW = "\u0300", "✓✗→"


class Whole(str):
    """A line that is not folded, because somebody copies it: a command."""

    __slots__ = ()


def text_width() -> int:
    """Return the number of columns for text: COLUMNS, else the terminal's, else 100."""
    return _given_columns() or min(_terminal_columns(), _WIDEST) or _WIDTH


def terminal_width() -> int:
    """Return the number of columns for what is not read as text, such as a table: all that the terminal has."""
    return _given_columns() or _terminal_columns() or _WIDTH


def _given_columns() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isascii() and given.isdigit() else 0


def _terminal_columns() -> int:
    try:
        # Not the descriptor of sys.stdout, which need not have one.
        return os.get_terminal_size(1).columns if sys.stdout.isatty() else 0
    except (OSError, ValueError):
        return 0


def display_width(text: str) -> int:
    """Return the number of columns that printable *text* takes, without keyferry's own styles."""
    bare = _without_styles(text) if "\033" in text else text
    if bare.isascii() or all(char < _FIRST_UNUSUAL or char in _NARROW for char in bare):
        return len(bare)
    # Imported here because nearly all text is of ordinary characters.
    from unicodedata import combining, east_asian_width

    return sum(1 + (east_asian_width(char) in ("W", "F")) for char in bare if not combining(char))


def _without_styles(text: str) -> str:
    import re

    return re.sub(r"\033\[[0-9;]*m", "", text)


def fold(text: str, first: str = "", rest: str = "", *, width: int | None = None) -> Iterator[str]:
    """Yield *text* in lines of at most *width* columns, by default those of the terminal.

    The first line follows *first* and the others *rest*. Words are not broken, so that they can be copied. A style that
    goes on in the next line ends with its line and starts anew, so that each line has its own.
    """
    lines = _fold(text, first, rest, width)
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


def _fold(text: str, first: str, rest: str, width: int | None) -> Iterator[str]:
    columns = text_width() if width is None else width
    if columns - display_width(rest) < _NARROWEST:
        rest = rest[: max(0, min(len(rest), columns - _NARROWEST, 2))]
    line, is_empty = first, True
    for word in text.split(" "):
        if not is_empty and display_width(line) + 1 + display_width(word) > columns:
            yield line
            line, is_empty = rest, True
        line += word if is_empty else f" {word}"
        is_empty = False
    yield line


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


def duration_text(seconds: float) -> str:
    """Return a duration in at most two units."""
    whole, parts = round(abs(seconds)), []
    for size, unit in _UNITS:
        number, whole = divmod(whole, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "less than a second"
