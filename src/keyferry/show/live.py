"""Lines at the bottom of a terminal that are redrawn in place and leave no trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from keyferry._core.secrets import printable
from keyferry.show.writer import Drawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["LiveLines", "terminal_size"]

_USUAL = (80, 24)


def terminal_size() -> tuple[int, int]:
    """Return the columns and rows of the terminal of standard error."""
    try:
        columns, rows = os.get_terminal_size(2)
    except OSError:
        return _USUAL
    # A terminal whose size nobody has set has none.
    return columns or _USUAL[0], rows or _USUAL[1]


class LiveLines:
    """Lines that ``draw`` replaces by new ones. One thread at a time may use them."""

    def __init__(
        self, stream: TextIO | None = None, size: Callable[[], tuple[int, int]] = terminal_size
    ) -> None:
        self._stream = stream or sys.stderr
        self._size = size
        self._shown: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """The number of characters that a line may have now; the last column stays empty."""
        return max(1, self._size()[0] - 1)

    def draw(self, lines: Sequence[str]) -> None:
        """Show *lines* in the place of those that are shown; what is too long or too much is cut."""
        columns, rows = self._size()
        shown = tuple(printable(line)[: max(1, columns - 1)] for line in lines[: max(1, rows - 1)])
        if shown == self._shown:
            return
        text = "\n".join(f"{line}\033[K" for line in shown)
        self._write(f"{self._back(columns)}{text}\033[J")
        self._shown = shown

    def clear(self) -> None:
        """Take the lines away."""
        if self._shown:
            self._write(f"{self._back(self._size()[0])}\033[J")
            self._shown = ()

    def say(self, text: str) -> None:
        """Print a line that stays, above the others."""
        shown = self._shown
        self.clear()
        print(printable(text), file=self._stream, flush=True)
        self.draw(shown)

    def _back(self, columns: int) -> str:
        """Return the movement to the first line; in a terminal that became narrower, a line takes several rows."""
        rows = sum(max(1, -(-len(line) // columns)) for line in self._shown)
        return f"\r\033[{rows - 1}A" if rows > 1 else "\r"

    def _write(self, text: str) -> None:
        self._stream.write(Drawn(text))
        self._stream.flush()
