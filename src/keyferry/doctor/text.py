"""The health of a node as text for a terminal: the verdict, then one section for each subject."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.secrets import printable
from keyferry.doctor.health import HealthLevel, HealthLine, NodeHealth
from keyferry.show.text import Mark, Whole, mark, sections
from keyferry.show.writer import Lines, style

__all__ = ["render_health"]

_MARKS = {
    HealthLevel.OK: Mark.YES,
    HealthLevel.WARNING: Mark.WARNING,
    HealthLevel.PROBLEM: Mark.NO,
    HealthLevel.UNKNOWN: Mark.UNKNOWN,
    HealthLevel.NEXT: Mark.NEXT,
}


def render_health(health: NodeHealth) -> Lines:
    """Return the whole text."""
    verdict = style(printable(health.verdict), "bold", _colour(health))
    body = sections((section.title, _lines(section.lines)) for section in health.sections)
    return Lines(f"{verdict}\n\n{body}")


def _colour(health: NodeHealth) -> str:
    if health.count(HealthLevel.PROBLEM):
        return "red"
    return "yellow" if health.has_findings or not health.is_node else "green"


def _lines(lines: tuple[HealthLine, ...]) -> Iterator[str]:
    for line in lines:
        level = f"{line.level}: " if line.level in (HealthLevel.WARNING, HealthLevel.PROBLEM) else ""
        text = f"{level}{printable(line.subject)}: {printable(line.text)}"
        yield f"{mark(_MARKS[line.level])} {text}"
        if line.next_command:
            yield Whole(f"    try: {style(printable(line.next_command), 'bold')}")
