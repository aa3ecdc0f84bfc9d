"""Tables for terminals."""

from keyferry._core.secrets import printable
from keyferry.show.writer import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(header: "Sequence[str]", rows: "Iterable[Sequence[str]]") -> Lines:
    """Return a table whose columns are as wide as their widest cell."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return Lines("\n".join(line.rstrip() for line in lines))
