"""Code that all benchmarks share: figures with their spread, rows, and alternating rounds."""

from __future__ import annotations

import operator
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Self, TypeVar

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "src")

# What the script that pip installs does; "python3 -m keyferry" has runpy to load as well.
CONSOLE_SCRIPT = (sys.executable, "-c", "import sys; from keyferry.cli.main import run; sys.exit(run())")

_Name = TypeVar("_Name", str, int)

# The most rounds that anything is measured for, from outside: for a quick look, and for comparing commits.
ROUNDS_VARIABLE = "KEYFERRY_BENCH_ROUNDS"
_MANY_ROUNDS = 10


class Figure(float):
    """A number over all rounds that also holds the number of each round; arithmetic is done round by round."""

    rounds: tuple[float, ...]

    def __new__(cls, value: float, rounds: Sequence[float] = ()) -> Self:
        """Return a figure with these rounds; without rounds it is a plain number."""
        figure = super().__new__(cls, value)
        figure.rounds = tuple(rounds)
        return figure

    def __sub__(self, other: float) -> Figure:
        return self._combine(operator.sub, other)

    def __mul__(self, other: float) -> Figure:
        return self._combine(operator.mul, other)

    def __rmul__(self, other: float) -> Figure:
        return self._combine(operator.mul, other)

    def __truediv__(self, other: float) -> Figure:
        return self._combine(operator.truediv, other)

    def _combine(self, operation: Callable[[float, float], float], other: float) -> Figure:
        """Combine two figures round by round if they have the same number of rounds."""
        others = other.rounds if isinstance(other, Figure) else len(self.rounds) * (other,)
        rounds = map(operation, self.rounds, others) if len(others) == len(self.rounds) else ()
        return Figure(operation(float(self), float(other)), tuple(rounds))


def spread(rounds: Sequence[float]) -> tuple[float, float] | None:
    """Return the range of the rounds; with ten rounds or more, from the tenth to the ninetieth percentile."""
    if len(rounds) < 2:
        return None
    if len(rounds) < _MANY_ROUNDS:
        return min(rounds), max(rounds)
    tenths = statistics.quantiles(rounds, n=10)
    return tenths[0], tenths[-1]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; ``ratio`` is *measured* divided by *against*, and ``ratio_bar`` its upper limit.

    *versus* names *against*: "bar" for a fixed number, else the thing measured in the same run.
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
        """*measured* divided by *against*, if both are known."""
        if self.measured is None or not self.against:
            return None
        return _figure(self.measured) / self.against

    @property
    def spread(self) -> tuple[float, float] | None:
        """The spread of *measured* over the rounds."""
        return _spread(self.measured)

    @property
    def ratio_spread(self) -> tuple[float, float] | None:
        """The spread of the ratios of each round."""
        return _spread(self.ratio)

    @property
    def bar(self) -> str:
        """The upper limit of the figure or of its ratio; empty if there is none."""
        if self.ratio_bar is not None:
            return f"{self.ratio_bar:g} x"
        if self.versus == "bar" and self.against is not None:
            return number(self.against, self.unit)
        return ""

    @property
    def holds(self) -> bool | None:
        """Whether the figure meets the bar; None if there is no bar or no figure."""
        if self.ratio is None or not self.bar:
            return None
        return self.ratio <= (1.0 if self.ratio_bar is None else self.ratio_bar)

    def to_document(self, group: str) -> dict[str, object]:
        """Return the row as a JSON document."""
        computed = ("ratio", "spread", "ratio_spread", "holds")
        return {"group": group, **asdict(self), **{name: getattr(self, name) for name in computed}}


def skipped(what: str, why: str) -> Row:
    """Return a row for something that cannot be measured here."""
    return Row(what, None, note=why)


def take_turns(
    contestants: Mapping[_Name, Callable[[], Sequence[float]]], rounds: int
) -> dict[_Name, list[list[float]]]:
    """Call each contestant once per round, A B A B, so that a slow phase of the machine affects all of them."""
    results: dict[_Name, list[list[float]]] = {name: [] for name in contestants}
    for at in range(min(rounds, int(os.environ.get(ROUNDS_VARIABLE, rounds)))):
        names = list(contestants)
        # Every other round goes backwards: nobody always follows the same neighbour.
        for name in names if at % 2 else reversed(names):
            results[name].append(list(contestants[name]()))
    return results


def best(rounds: Sequence[Sequence[float]]) -> Figure:
    """Return the smallest figure: for pure computation, where noise only adds time."""
    return _over(rounds, min)


def median(rounds: Sequence[Sequence[float]]) -> Figure:
    """Return the median of all rounds: for processes, which depend on the scheduler."""
    return _over(rounds, statistics.median)


def quickest_tenth(rounds: Sequence[Sequence[float]]) -> Figure:
    """Return the tenth percentile: steadier than the median while other programs use the machine."""
    return _over(rounds, _quickest_tenth)


def _over(rounds: Sequence[Sequence[float]], statistic: Callable[[Sequence[float]], float]) -> Figure:
    return Figure(
        statistic([figure for figures in rounds for figure in figures]), list(map(statistic, rounds))
    )


def _quickest_tenth(figures: Sequence[float]) -> float:
    return statistics.quantiles(figures, n=10)[0] if len(figures) > 1 else figures[0]


def seconds_of(call: Callable[[], object]) -> float:
    """Return the wall-clock seconds of one call."""
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def progress(text: str) -> None:
    """Print the current step on standard error."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def number(value: float, unit: str = "") -> str:
    """Return a figure as text, with its significant digits."""
    shown = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{shown} {unit}".rstrip()


def _figure(value: float) -> Figure:
    return value if isinstance(value, Figure) else Figure(value)


def _spread(value: float | None) -> tuple[float, float] | None:
    return None if value is None else spread(_figure(value).rounds)
