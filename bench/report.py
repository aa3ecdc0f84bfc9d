"""The result of a run: one screen for the terminal, a JSON document, and the generated part of docs/figures.md."""

from __future__ import annotations

import os
import platform
import sysconfig
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from bench.measure import Row, number
from bench.sections import table

_HEADER = ("what", "measured", "floor or peer", "ratio", "bar", "verdict")
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when a run was made, and the load of the machine."""

    date: str
    cpu: str
    cores: int
    kind: str
    system: str
    python: str
    build: str
    load_before: str
    load_after: str = ""

    def sentence(self) -> str:
        """Return the description as one sentence."""
        loads = f"load {self.load_before} at the start" + (
            f" and {self.load_after} at the end" if self.load_after else ""
        )
        return (
            f"{self.date}: {self.cpu}, {self.cores} cores, {self.kind}, {self.system}; "
            f"Python {self.python}, {self.build}; {loads}."
        )


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run: the versions of the programs that took part, and the rows by the name of their group."""

    machine: Machine
    programs: Mapping[str, str]
    results: Mapping[str, Sequence[Row]]

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups that have a figure."""
        return [row for rows in self.results.values() for row in rows if row.measured is not None]

    def to_document(self) -> dict[str, object]:
        """Return the run as a JSON document."""
        rows = [row.to_document(group) for group, rows in self.results.items() for row in rows]
        return {"machine": asdict(self.machine), "programs": dict(self.programs), "rows": rows}

    def to_text(self) -> str:
        """Return the run as one screen for a terminal."""
        head = [self.machine.sentence(), self._programs()]
        notes = [self._summary(), *self._missing()]
        parts = [textwrap.fill(part, _WIDTH) for part in head if part]
        return "\n".join([*parts, aligned([_HEADER, *map(cells, self.rows)], "  "), *notes])

    def to_markdown(self) -> str:
        """Return the run as Markdown: one table, and the rows that could not be measured."""
        rows = table([_HEADER, *map(cells, self.rows)])
        missing = "\n".join(f"- {each}" for each in self._missing())
        return "\n\n".join(
            filter(None, (self.machine.sentence(), self._programs(), rows, self._summary(), missing))
        )

    def _programs(self) -> str:
        if not self.programs:
            return ""
        peers = ", ".join(f"{name} {version}" for name, version in self.programs.items() if name != "pip")
        return f"keyferry's scripts: installed by pip {self.programs['pip']}. Beside it: {peers}."

    def _summary(self) -> str:
        counted = Counter(row.verdict for row in self.rows if row.verdict)
        text = ", ".join(f"{times} {verdict}" for verdict, times in counted.items())
        is_recorded = any(row.peer.endswith("*") for row in self.rows)
        return f"{text}." + (" With an asterisk: recorded before, not in this run." if is_recorded else "")

    def _missing(self) -> list[str]:
        return [
            f"not measured: {row.what}: {row.why}"
            for rows in self.results.values()
            for row in rows
            if row.measured is None
        ]


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row that has a figure."""
    assert row.measured is not None
    peer = "" if row.against is None else f"{row.peer}: {number(row.against, row.unit)}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (row.what, number(row.measured, row.unit), peer.replace("*:", "*"), ratio, row.bar, row.verdict)


def describe_machine() -> Machine:
    """Describe this machine at this time."""
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        cpu=_cpu(),
        cores=os.cpu_count() or 0,
        kind="a virtual machine" if _is_virtual() else "no sign of a virtual machine",
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        build=describe_build(str(sysconfig.get_config_var("CONFIG_ARGS") or "")),
        load_before=load(),
    )


def describe_build(arguments: str) -> str:
    """Return the build options of an interpreter that affect its speed."""
    if not arguments:
        return "built in a way it does not tell"
    # Debian optimises by profile, with rules of its own that the options do not show.
    if "--with-wheel-pkg-dir=/usr/share/python-wheels/" in arguments:
        return "Debian's build"
    if "--enable-optimizations" not in arguments:
        return "built without optimisation by profile"
    return "built with optimisation by profile" + (" and at link time" if "--with-lto" in arguments else "")


def load() -> str:
    """Return the load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def aligned(lines: Sequence[tuple[str, ...]], between: str = " | ") -> str:
    """Return the lines of a table for a terminal; the first one is the header."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ruled = [lines[0], tuple("-" * width for width in widths), *lines[1:]]
    return "\n".join(between.join(map(str.ljust, line, widths)).rstrip() for line in ruled)


def _cpu() -> str:
    return _line_of_cpuinfo("model name") or platform.processor() or "unknown processor"


def _is_virtual() -> bool:
    return "hypervisor" in _line_of_cpuinfo("flags").split()


def _line_of_cpuinfo(name: str) -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            return next((line.partition(":")[2].strip() for line in stream if line.startswith(name)), "")
    except OSError:
        return ""
