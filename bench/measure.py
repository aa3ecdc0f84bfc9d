"""What every benchmark shares: rows, rounds that take turns, and the table they end in."""

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "src")

# What the script that pip installs does; "python3 -m keyferry" has runpy to load as well.
CONSOLE_SCRIPT = (sys.executable, "-c", "import sys; from keyferry.cli.main import run; sys.exit(run())")

_Name = TypeVar("_Name", str, int)

_HEADER = ("what", "measured", "floor or bar", "ratio")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; ``ratio`` is *measured* by *against*, and ``ratio_bar`` the most it should be.

    *versus* says what *against* is: "bar" for a fixed number, else what was measured in the same run.
    """

    what: str
    measured: float | None
    unit: str = ""
    against: float | None = None
    versus: str = "bar"
    ratio_bar: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """*measured* by *against*, where both are known."""
        if self.measured is None or not self.against:
            return None
        return self.measured / self.against

    def to_document(self, group: str) -> dict[str, object]:
        """The row for programs."""
        return {"group": group, **asdict(self), "ratio": self.ratio}

    def cells(self) -> tuple[str, ...]:
        """The row for people."""
        if self.measured is None:
            return self.what, "-", "-", self.note
        against = "" if self.against is None else f"{self.versus} {_number(self.against, self.unit)}"
        return self.what, _number(self.measured, self.unit), against, self._verdict()

    def _verdict(self) -> str:
        words = []
        if self.ratio is not None:
            words.append(f"{self.ratio:.2f}" + (" of the bar" if self.versus == "bar" else " x"))
        if self.ratio_bar is not None:
            words.append(f"(bar {self.ratio_bar:g} x)")
        if self.note:
            words.append(f"({self.note})" if words else self.note)
        return " ".join(words)


def skipped(what: str, why: str) -> Row:
    """A row that could not be measured here."""
    return Row(what, None, note=why)


def take_turns(
    contestants: Mapping[_Name, Callable[[], Sequence[float]]], rounds: int
) -> dict[_Name, list[list[float]]]:
    """Call each contestant once per round, A B A B, so that a slow spell of the machine hits all of them."""
    results: dict[_Name, list[list[float]]] = {name: [] for name in contestants}
    for number in range(rounds):
        names = list(contestants)
        # Every other round goes backwards: nobody always follows the same neighbour.
        for name in names if number % 2 else reversed(names):
            results[name].append(list(contestants[name]()))
    return results


def best(rounds: Sequence[Sequence[float]]) -> float:
    """The smallest figure: for pure computation, where noise only ever adds."""
    return min(min(figures) for figures in rounds)


def median(rounds: Sequence[Sequence[float]]) -> float:
    """The middle figure of all rounds: for processes, where the scheduler has its say."""
    return statistics.median(figure for figures in rounds for figure in figures)


def quickest_tenth(rounds: Sequence[Sequence[float]]) -> float:
    """The figure that one in ten stays below: steadier than the median while others use the machine."""
    return statistics.quantiles((figure for figures in rounds for figure in figures), n=10)[0]


def seconds_of(call: Callable[[], object]) -> float:
    """The wall-clock seconds of one call."""
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def progress(text: str) -> None:
    """Tell the person who waits what is going on."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> str:
    """All rows under one header."""
    lines = [_HEADER, *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(_HEADER))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(" | ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _number(value: float, unit: str) -> str:
    shown = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    return f"{shown} {unit}".rstrip()
