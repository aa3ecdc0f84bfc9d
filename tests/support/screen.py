"""The rows of a terminal on which a program moves the cursor, as a person sees them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from time import monotonic

from .plugins import PATIENCE_SECONDS
from .terminal import Terminal

_TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Screen:
    """The rows that a terminal shows after a text; lines that are too long continue on the next row."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[str] = [""]
        self._row = self._column = 0

    @property
    def rows(self) -> list[str]:
        """The rows, without spaces at their ends."""
        return [row.rstrip() for row in self._rows]

    def feed(self, text: str) -> Screen:
        """Show more text."""
        for number, letter, end, plain in _TOKEN.findall(text):
            if plain:
                self._write(plain)
            elif end == "\r":
                self._column = 0
            elif end:
                self._go_down()
            else:
                self._move(int(number or "0") if number.isdigit() or not number else 0, letter)
        return self

    def _write(self, text: str) -> None:
        for character in text:
            if self._column == self._columns:
                self._go_down()
                self._column = 0
            row = self._rows[self._row].ljust(self._column)
            self._rows[self._row] = row[: self._column] + character + row[self._column + 1 :]
            self._column += 1

    def _go_down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append("")

    def _move(self, number: int, letter: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - (number or 1))
        elif letter in "JK":
            self._rows[self._row] = self._rows[self._row][: self._column]
            if letter == "J":
                del self._rows[self._row + 1 :]
        else:
            assert letter == "m", letter  # a colour


class WatchedTerminal(Terminal):
    """``keyferry`` with some words on a terminal, whose rows are looked at while it runs."""

    def __init__(self, *words: str, columns: int = 80, **env: str) -> None:
        super().__init__((sys.executable, "-m", "keyferry", *words), columns=columns, env=env)
        self._columns = columns

    @property
    def rows(self) -> list[str]:
        """The rows of the screen, if the terminal has kept its width."""
        return Screen(self._columns).feed(self.raw).rows

    def wait_for(self, shows: Callable[[str], bool]) -> None:
        """Read until *shows* finds in the whole output what it looks for."""
        end = monotonic() + PATIENCE_SECONDS
        while not shows(self.raw):
            assert monotonic() < end, self.raw
            assert self._read(), f"it has ended: {self.raw}"
