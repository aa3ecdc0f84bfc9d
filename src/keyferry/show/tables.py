"""Tables for terminals."""

from keyferry._core.secrets import printable
from keyferry.show.text import display_width
from keyferry.show.writer import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(header: "Sequence[str]", rows: "Iterable[Sequence[str]]") -> Lines:
    """Return a table whose columns are as wide as their widest cell."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(display_width(row[at]) for row in cells) for at in range(len(header))]
    lines = ("   ".join(map(_padded, row, widths)) for row in cells)
    return Lines("\n".join(line.rstrip() for line in lines))


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - display_width(cell))
