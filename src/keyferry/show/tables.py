"""Tables for terminals."""

from __future__ import annotations

import sys

from keyferry._core.secrets import printable
from keyferry.show.text import display_width, fold, terminal_width
from keyferry.show.writer import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["fitting_table", "table"]


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
