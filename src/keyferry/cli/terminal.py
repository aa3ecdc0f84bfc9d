"""Tables and colours, kept as plain as the terminal asks for."""

import os
import sys
from collections.abc import Iterable, Sequence

from keyferry._secret import printable

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def is_coloured() -> bool:
    """Tell whether standard output takes colours: a terminal, and nobody said NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def style(text: str, *names: str, coloured: bool | None = None) -> str:
    """*text* in the styles named, where colours are taken."""
    if not names or not (is_coloured() if coloured is None else coloured):
        return text
    return f"\033[{';'.join(_STYLES[name] for name in names)}m{text}\033[0m"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, under a header in capitals."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)
