"""Code that all benchmarks share: contestants that take turns, and the rows that come of it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "src")

# The most rounds that anything is measured for, from outside: for a quick look, and for comparing commits.
ROUNDS_VARIABLE = "KEYFERRY_BENCH_ROUNDS"

Contestant = Callable[[], Sequence[float]]
Statistic = Callable[[Sequence[float]], float]
# For programs, whose time depends on the scheduler; for pure computation, where noise only adds time, it is min.
median: Statistic = statistics.median


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: a figure, the peer or floor beside it, and the bar.

    The bar is *most*, in the unit of the figure, or *most_times*, as a ratio to the peer. A peer whose name ends with
    an asterisk was recorded in another run. A row without a figure has the reason in *why*.
    """

    what: str
    measured: float | None = None
    unit: str = ""
    peer: str = ""
    against: float | None = None
    most: float | None = None
    most_times: float | None = None
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """The figure divided by that of the peer, if both are known."""
        return None if self.measured is None or not self.against else self.measured / self.against

    @property
    def bar(self) -> str:
        """The bar as text; empty if there is none."""
        if self.most is not None:
            return number(self.most, self.unit)
        return "" if self.most_times is None else f"{self.most_times:g} x"

    @property
    def verdict(self) -> str:
        """Whether the bar holds; without a bar, whether the figure is ahead of the peer's."""
        if self.measured is None:
            return ""
        if self.most is not None:
            return "holds" if self.measured <= self.most else "no"
        if self.ratio is None:
            return ""
        if self.most_times is not None:
            return "holds" if self.ratio <= self.most_times else "no"
        return "ahead" if self.ratio < 1 else "behind"

    def to_document(self, group: str) -> dict[str, object]:
        """Return the row as a JSON document."""
        return {"group": group, **asdict(self), "ratio": self.ratio, "verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class Results:
    """The figures of each contestant, and why others could not be measured."""

    figures: Mapping[str, Sequence[float]]
    failures: Mapping[str, str]

    def row(
        self,
        what: str,
        name: str,
        peer: str = "",
        *,
        unit: str = "ms",
        statistic: Statistic = median,
        most: float | None = None,
        most_times: float | None = None,
    ) -> Row:
        """Return a row for the contestant *name* beside the contestant *peer*."""
        for each in filter(None, (name, peer)):
            if each in self.failures:
                return Row(what=what, why=f"{each}: {self.failures[each]}")
        against = statistic(self.figures[peer]) if peer else None
        measured = statistic(self.figures[name])
        return Row(
            what=what,
            measured=measured,
            unit=unit,
            peer=peer,
            against=against,
            most=most,
            most_times=most_times,
        )


def take_turns(contestants: Mapping[str, Contestant], rounds: int) -> Results:
    """Call each contestant once per round, so that a slow phase of the machine affects all of them.

    Each is tried first, which is not counted; one that is not installed or fails is left out.
    """
    failures = {name: why for name, contestant in contestants.items() if (why := _failure(contestant))}
    names = [name for name in contestants if name not in failures]
    figures: dict[str, list[float]] = {name: [] for name in names}
    for at in range(rounds_of(rounds)):
        # Every other round goes backwards: nobody always follows the same neighbour.
        for name in names if at % 2 else reversed(names):
            figures[name] += contestants[name]()
    return Results(figures, failures)


def rounds_of(rounds: int) -> int:
    """Return the number of rounds, limited from outside."""
    return min(rounds, int(os.environ.get(ROUNDS_VARIABLE, rounds)))


def _failure(contestant: Contestant) -> str:
    try:
        contestant()
    except OSError:
        return "not installed"
    except subprocess.CalledProcessError as error:
        return f"exit status {error.returncode}"
    return ""


def quickest_tenth(figures: Sequence[float]) -> float:
    """Return the tenth percentile, for small differences: steadier than the median on a busy machine."""
    return statistics.quantiles(figures, n=10)[0] if len(figures) > 1 else figures[0]


def run_of(command: Sequence[str], environ: Mapping[str, str], stdin: bytes = b"") -> Contestant:
    """Return a contestant that runs a command; its figures are milliseconds."""
    # Output goes nowhere: a pipe that is read would add this process's own work.
    quiet = partial(
        subprocess.run,
        command,
        input=stdin,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return lambda: [seconds_of(quiet) * 1e3]


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
