"""The health of a node as a document for programs, with stable fields."""

from __future__ import annotations

from keyferry.doctor.health import HealthLevel, HealthLine, NodeHealth
from keyferry.show.documents import make_document

__all__ = ["health_document"]


def health_document(health: NodeHealth) -> dict[str, object]:
    """Return the output of ``keyferry doctor``."""
    return make_document(
        "NodeHealth",
        verdict=health.verdict,
        isNode=health.is_node,
        online=health.is_online,
        counts={str(level): health.count(level) for level in HealthLevel},
        sections=[
            {"title": section.title, "lines": [_line(line) for line in section.lines]}
            for section in health.sections
        ],
    )


def _line(line: HealthLine) -> dict[str, object]:
    return {
        "level": str(line.level),
        "subject": line.subject,
        "text": line.text,
        "next": line.next_command,
        "count": line.count,
    }
