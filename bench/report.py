"""The result of a run: a table for the terminal, a JSON document, and the generated part of docs/speed.md."""

from __future__ import annotations

import os
import platform
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from bench.measure import Row, number

BEGIN, END = "<!-- written by `make bench`; do not edit -->", "<!-- end of what `make bench` writes -->"
_HEADER = ("what", "measured", "spread", "floor or peer", "ratio", "spread of the ratio", "bar", "holds")
_HOLDS = {True: "yes", False: "**no**", None: ""}


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
    """A whole run: *results* are rows by the name of their group, *titles* the groups' headings."""

    machine: Machine
    peers: Mapping[str, str]
    titles: Mapping[str, str]
    results: Mapping[str, Sequence[Row]]

    def to_document(self) -> dict[str, object]:
        """Return the run as a JSON document."""
        rows = [row.to_document(group) for group, rows in self.results.items() for row in rows]
        return {"machine": asdict(self.machine), "peers": dict(self.peers), "rows": rows}

    def to_text(self) -> str:
        """Return the run as text for a terminal."""
        rows = [cells(row) for rows in self.results.values() for row in rows if row.measured is not None]
        lines = [_HEADER, *(tuple(cell.replace("**", "") for cell in row) for row in rows)]
        parts = [self.machine.sentence(), aligned(lines)]
        if self.missing():
            parts.append("\n".join(("not measured:", *(f"  {each}" for each in self.missing()))))
        return "\n\n".join(parts)

    def to_markdown(self) -> str:
        """Return the run as Markdown: a table for each group, and the rows that could not be measured."""
        parts = [self.machine.sentence(), _peers(self.peers)]
        for group, rows in self.results.items():
            measured = [cells(row) for row in rows if row.measured is not None]
            if measured:
                parts += [f"### {self.titles[group]}", _markdown([_HEADER, *measured])]
        if self.missing():
            parts.append("\n".join(("Not measured:\n", *(f"- {each}" for each in self.missing()))))
        return "\n\n".join(part for part in parts if part)

    def missing(self) -> list[str]:
        """Return the rows that could not be measured, and why."""
        return [
            f"{row.what.strip()}: {row.note}"
            for rows in self.results.values()
            for row in rows
            if row.measured is None
        ]


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a measured row; a row that belongs to the one above begins with a dash."""
    assert row.measured is not None
    what = row.what if row.what == row.what.lstrip() else f"- {row.what.lstrip()}"
    against = (
        "" if row.against is None or row.versus == "bar" else _against(row.versus, row.against, row.unit)
    )
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (
        f"{what} ({row.note})" if row.note else what,
        number(row.measured, row.unit),
        _range(row.spread, number),
        against,
        ratio,
        _range(row.ratio_spread, "{:.2f}".format),
        row.bar,
        _HOLDS[row.holds],
    )


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


def replace_generated(page: str, text: str) -> str:
    """Return the page with *text* between its marks; raise ValueError unless it has each mark once, in order."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError("the page does not have the marks of what is generated once each")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _peers(peers: Mapping[str, str]) -> str:
    if not peers:
        return ""
    return "Beside it: " + ", ".join(f"{name} {version}" for name, version in peers.items()) + "."


def _range(ends: tuple[float, float] | None, show: Callable[[float], str]) -> str:
    return "" if ends is None else f"{show(ends[0])} to {show(ends[1])}"


def _against(versus: str, figure: float, unit: str) -> str:
    return f"{versus.rstrip(':')}: {number(figure, unit)}"


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Return the lines of a table for a terminal; the first one is the header."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ruled = [lines[0], tuple("-" * width for width in widths), *lines[1:]]
    return "\n".join(" | ".join(map(str.ljust, line, widths)).rstrip() for line in ruled)


def _markdown(lines: Sequence[tuple[str, ...]]) -> str:
    ruled = [lines[0], ("---",) * len(_HEADER), *lines[1:]]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in ruled)


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
