"""The table of faults in docs/figures.md: each test adds its lines, or compares them with those on the page."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bench.sections import section, table, with_section

PAGE = Path(__file__).resolve().parents[2] / "docs" / "figures.md"
_HEAD = ("what happens", "where", "what comes of it", "tried by")


class Line(NamedTuple):
    """One line: the fault, what it happens to, what comes of it, and the test that tries it."""

    fault: str
    place: str
    outcome: str
    test: str

    @property
    def text(self) -> str:
        """The line as Markdown."""
        return f"| {' | '.join(self.cells)} |"

    @property
    def cells(self) -> tuple[str, ...]:
        """What the line says."""
        return self.fault, self.place, self.outcome, f"`{self.test}`"


def lines_of(page: str) -> list[str]:
    """Return the lines of the page's table, without its head."""
    return [line for line in section(page, "faults").splitlines() if line.startswith("| ")][2:]


def with_lines(page: str, lines: list[Line]) -> str:
    """Return the page with these lines in its table."""
    return with_section(page, "faults", table([_HEAD, *(line.cells for line in lines)]))


class Tried:
    """What one test tried; it writes nothing, unless the table is being made."""

    def __init__(self, test: str, made: list[Line] | None) -> None:
        self._test = test
        self._made = made

    def __call__(self, fault: str, place: str, outcome: str) -> None:
        """Add a line to the table that is being made; else check that the page has it."""
        line = Line(fault, place, outcome, self._test)
        if self._made is not None:
            self._made.append(line)
            return
        assert line.text in lines_of(PAGE.read_text(encoding="utf-8")), "not on the page: run make faults"
