"""A long run of mixed use, to see whether anything grows, hangs, gets lost or stays behind.

    python bench/soak.py [--minutes 60] [--folder .cache/soak] [--docs docs]

Every kind of work of ``bench/soak_work.py`` goes on at once. Memory, descriptors, threads and child processes of this
process and of an agent are written down every few seconds. A run of an hour or more writes its section
into the docs, a shorter one into the folder. It exits with 1 after an unexpected error, growth above the
bounds, or if a process or a descriptor is left at the end.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.agent_place import AgentPlace
from bench.measure import ROOT
from bench.report import Machine, aligned, describe_machine
from bench.sections import table, with_section
from bench.soak_work import Chosen, count_answers, start_all

_MAX_KEPT_ERRORS = 20
_JOIN_SECONDS = 60.0
_SAMPLES, _MIN_SECONDS, _MAX_SECONDS = 400, 0.5, 5.0
_WARM_UP, _PARTS = 1 / 3, 24
# In a shorter run caches and pools of threads are still filling after the warm-up: its growth is shown, not judged.
_MIN_JUDGED_SECONDS = 1800.0
# The docs have the figures of an hour or more; those of a shorter run are written beside its samples.
_MIN_DOCS_SECONDS = 3600.0
# The figure may grow by so much during a run, and by so much more with each hour of it.
_BOUNDS = {
    "memory_mb": (4.0, 4.0),
    "blocks": (20_000.0, 20_000.0),
    "agent_memory_mb": (2.0, 2.0),
    "descriptors": (4.0, 2.0),
    "agent_descriptors": (4.0, 2.0),
    "threads": (4.0, 2.0),
    "children": (4.0, 2.0),
}
_TITLES = {
    "memory_mb": ("memory of the host process (PSS)", "MB"),
    "blocks": ("memory blocks that Python has in use there, for a constant number of answers", ""),
    "agent_memory_mb": ("memory of the agent (PSS)", "MB"),
    "descriptors": ("descriptors of the host process", ""),
    "agent_descriptors": ("descriptors of the agent", ""),
    "threads": ("threads of the host process", ""),
    "children": ("child processes of the host process", ""),
}


@dataclass(frozen=True)
class Sample:
    """The figures at one time, in seconds since the start."""

    at: float
    memory_mb: float
    rss_mb: float
    blocks: int
    answers: int
    descriptors: int
    threads: int
    children: int
    agent_memory_mb: float
    agent_rss_mb: float
    agent_descriptors: int
    operations: int
    expected_errors: int
    unexpected_errors: int


@dataclass
class Count:
    """What came of one kind of work."""

    steps: int = 0
    operations: int = 0
    expected_errors: int = 0
    unexpected_errors: int = 0
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Growth:
    """One figure over the run: at its first and last sample after the warm-up, and by least squares."""

    name: str
    first: float
    last: float
    most: float
    an_hour: float
    in_run: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether it grew by no more than the bound."""
        return self.in_run <= self.bound


@dataclass(frozen=True)
class Result:
    """A whole soak."""

    seconds: float
    machine: Machine
    counts: Mapping[str, Count]
    samples: Sequence[Sample]
    growths: Sequence[Growth]
    problems: Sequence[str]
    left_out: Sequence[str]


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the growth of *values* in one unit of *times*, by least squares; 0 for fewer than two times."""
    if len(set(times)) < 2:
        return 0.0
    mean_time, mean = sum(times) / len(times), sum(values) / len(values)
    above = sum((at - mean_time) * (value - mean) for at, value in zip(times, values, strict=True))
    return above / sum((at - mean_time) ** 2 for at in times)


def beside(others: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return *values* without their part that follows *others*, by least squares: as if *others* were constant."""
    follows, mean = slope(others, values), sum(others) / len(others)
    return [value - follows * (other - mean) for value, other in zip(values, others, strict=True)]


def growth_of(name: str, samples: Sequence[Sample]) -> Growth:
    """Return how one figure grew, without the first third of the time, in which caches fill.

    The lowest figure of each part of the time counts: what is in use for a moment is no growth. Of memory blocks, those
    of cached answers do not count: their number goes up and down with the sweeps of the caches.
    """
    start = samples[0].at + (samples[-1].at - samples[0].at) * _WARM_UP
    kept = [each for each in samples if each.at >= start]
    times, values = [each.at for each in kept], [float(getattr(each, name)) for each in kept]
    if name == "blocks":
        answers = [float(each.answers) for each in kept]
        times, values = beside(answers, times), beside(answers, values)
        chosen = list(range(len(kept)))
    else:
        size = -(-len(kept) // _PARTS)
        parts = (range(at, min(at + size, len(kept))) for at in range(0, len(kept), size))
        chosen = [min(part, key=values.__getitem__) for part in parts]
    an_hour = slope([times[at] for at in chosen], [values[at] for at in chosen]) * 3600
    hours = (kept[-1].at - kept[0].at) / 3600
    base, more = _BOUNDS[name]
    return Growth(name, values[0], values[-1], max(values), an_hour, an_hour * hours, base + more * hours)


def judge(
    seconds: float, counts: Mapping[str, Count], growths: Sequence[Growth], left: Sequence[str]
) -> list[str]:
    """Return every reason for which a soak fails; the growth of a short one is none."""
    problems = list(left)
    for name, count in counts.items():
        if count.unexpected_errors:
            problems.append(f"{name}: {count.unexpected_errors} unexpected errors, such as {count.errors[0]}")
        if not count.steps:
            problems.append(f"{name}: not one step was finished")
    for growth in growths if seconds >= _MIN_JUDGED_SECONDS else ():
        if not growth.holds:
            title, unit = _TITLES[growth.name]
            grown = f"{growth.in_run:.1f} {unit}".rstrip()
            problems.append(f"{title}: grew by {grown} after the warm-up, bound {growth.bound:.1f}")
    return problems


class _Soak:
    """The threads, and what they count."""

    def __init__(self, works: Mapping[str, Chosen], agent: AgentPlace) -> None:
        self.counts = {name: Count() for name in works}
        self.samples: list[Sample] = []
        self.stuck: list[str] = []
        self._agent = agent
        self._works = [chosen.work for chosen in works.values()]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(name, chosen), name=name, daemon=True)
            for name, chosen in works.items()
        ]

    def run(self, seconds: float, path: Path) -> None:
        """Let all work go on for so long, and write the samples down."""
        start = time.monotonic()
        pause = min(max(seconds / _SAMPLES, _MIN_SECONDS), _MAX_SECONDS)
        for thread in self._threads:
            thread.start()
        with path.open("w", encoding="utf-8") as stream:
            while time.monotonic() - start < seconds:
                time.sleep(pause)
                # Not kept in memory, which they would make grow.
                stream.write(json.dumps(asdict(self._sample(time.monotonic() - start))) + "\n")
                stream.flush()
        self._stop.set()
        until = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0))
            if thread.is_alive():
                self.stuck.append(f"{thread.name}: hangs")
        lines = path.read_text(encoding="utf-8").splitlines()
        self.samples = [Sample(**json.loads(line)) for line in lines]

    def _repeat(self, name: str, chosen: Chosen) -> None:
        count = self.counts[name]
        while not self._stop.is_set():
            try:
                done = chosen.work.step()
            except Exception as error:  # noqa: BLE001 - every error is a result here
                count.unexpected_errors += 1
                if len(count.errors) < _MAX_KEPT_ERRORS:
                    count.errors.append(f"{type(error).__name__}: {error}")
            else:
                count.steps += 1
                count.operations += done.operations
                count.expected_errors += done.expected_errors
            self._stop.wait(chosen.pause_seconds)

    def _sample(self, at: float) -> Sample:
        gc.collect()  # garbage is no growth
        counts = list(self.counts.values())
        return Sample(
            round(at, 3),
            _memory_mb(os.getpid(), "Pss"),
            _memory_mb(os.getpid(), "Rss"),
            sys.getallocatedblocks(),
            sum(map(count_answers, self._works)),
            _descriptors(os.getpid()),
            threading.active_count(),
            len(_children()),
            self._agent.memory_mb("Pss"),
            self._agent.memory_mb("Rss"),
            _descriptors(self._agent.pid),
            sum(each.operations for each in counts),
            sum(each.expected_errors for each in counts),
            sum(each.unexpected_errors for each in counts),
        )


def _memory_mb(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) / 1024


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _children() -> list[str]:
    """Return the child processes of this process, ended ones included."""
    found: list[str] = []
    for task in os.listdir("/proc/self/task"):
        try:
            found += Path(f"/proc/self/task/{task}/children").read_text(encoding="ascii").split()
        except OSError:
            continue  # the thread has ended
    return found


def soak(seconds: float, folder: Path) -> Result:
    """Run everything; the samples are written to *folder*."""
    machine = describe_machine()
    folder.mkdir(parents=True, exist_ok=True)
    before = _descriptors(os.getpid())
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        agent = AgentPlace(home, "--watch", "false", "--refresh-idle", "2m")
        stack.callback(agent.close)
        agent.start()
        works, left_out = start_all(home, agent, stack)
        run = _Soak(works, agent)
        run.run(seconds, folder / "samples.jsonl")
        works.clear()
    growths = [growth_of(name, run.samples) for name in _BOUNDS]
    problems = judge(seconds, run.counts, growths, [*run.stuck, *_left_behind(before)])
    result = Result(seconds, machine, run.counts, run.samples, growths, problems, left_out)
    (folder / "summary.json").write_text(json.dumps(_summary(result), indent=2) + "\n", encoding="utf-8")
    return result


def _left_behind(descriptors: int) -> list[str]:
    gc.collect()
    left = []
    if children := _children():
        left.append(f"{len(children)} child processes are left")
    if (now := _descriptors(os.getpid())) > descriptors:
        left.append(f"{now - descriptors} descriptors are left")
    return left


def _summary(result: Result) -> dict[str, object]:
    return {name: value for name, value in asdict(result).items() if name != "samples"}


def work_table(result: Result) -> list[tuple[str, ...]]:
    """Return what was done, with a header."""
    head = ("work", "steps", "operations", "expected errors", "unexpected errors")
    rows = []
    for name, count in result.counts.items():
        figures = (count.steps, count.operations, count.expected_errors, count.unexpected_errors)
        rows.append((name, *(f"{each:,}" for each in figures)))
    return [head, *rows]


def growth_table(result: Result) -> list[tuple[str, ...]]:
    """Return what was measured, with a header."""
    head = (
        "figure",
        "after the warm-up",
        "at the end",
        "highest",
        "growth in the run",
        "bound for the run",
    )
    rows = []
    for each in result.growths:
        title, unit = _TITLES[each.name]
        cells = [_figure(value, unit) for value in (each.first, each.last, each.most)]
        cells += [
            f"{value:+,.1f} {unit}".rstrip().replace("-0.0", "+0.0") for value in (each.in_run, each.bound)
        ]
        if result.seconds < _MIN_JUDGED_SECONDS:
            cells[4] = "not judged"
        rows.append((title, *cells))
    return [head, *rows]


def _figure(value: float, unit: str) -> str:
    return f"{value:,.1f} {unit}" if unit else f"{value:,.0f}"


def _length(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def verdict(result: Result) -> str:
    """Return the outcome in one sentence."""
    if result.problems:
        return "It failed: " + "; ".join(result.problems) + "."
    growth = "no growth above the bounds"
    if result.seconds < _MIN_JUDGED_SECONDS:
        growth = "growth not judged in so short a run"
    return f"It passed: no unexpected error, no process or descriptor left, {growth}."


def to_markdown(result: Result) -> str:
    """Return the text of the page."""
    parts = [
        f"{result.machine.sentence()} It ran for {_length(result.seconds)}.",
        f"**{verdict(result)}**",
        table(work_table(result)),
        table(growth_table(result)),
    ]
    if result.left_out:
        parts.append("Not done: " + "; ".join(result.left_out) + ".")
    return "\n\n".join(parts)


def write_result(result: Result, docs: Path, folder: Path) -> Path:
    """Write the section, of a run that is too short for the docs to *folder*; return the file."""
    if result.seconds >= _MIN_DOCS_SECONDS:
        page = docs / "figures.md"
        text = with_section(page.read_text(encoding="utf-8"), "soak", to_markdown(result))
    else:
        page, text = folder / "soak.md", to_markdown(result) + "\n"
    page.write_text(text, encoding="utf-8")
    return page


def main() -> int:
    """Run the soak, write what came of it, print the tables, and return the exit code."""
    parser = argparse.ArgumentParser(description="A long run of mixed use.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, default=Path(ROOT, ".cache", "soak"))
    parser.add_argument("--docs", type=Path, default=Path(ROOT, "docs"))
    given = parser.parse_args()
    result = soak(given.minutes * 60, given.folder)
    written = write_result(result, given.docs, given.folder)
    print(
        aligned(work_table(result)),
        aligned(growth_table(result)),
        verdict(result),
        f"wrote {written}",
        sep="\n\n",
    )
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
