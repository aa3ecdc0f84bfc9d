"""The result of a doctor's visit as values: levels, lines, sections, and the verdict over all."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value

__all__ = ["HealthLevel", "HealthLine", "HealthSection", "NodeHealth"]


class HealthLevel(StrEnum):
    """How a checked thing is; *unknown* if it cannot be seen from here, *next* if it is only proposed."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    NEXT = "next"


class HealthLine(Value):
    """One checked thing: *subject* is its name, *next_command* what to type to learn more or to cure it.

    *count* is the number of findings that the line stands for, as in "and 5 more warnings".
    """

    level: HealthLevel
    subject: str
    text: str
    next_command: str = ""
    count: int = 1


class HealthSection(Value):
    """The lines about one subject."""

    title: str
    lines: tuple[HealthLine, ...]


class NodeHealth(Value):
    """All sections; *is_node* tells whether anything of a node was found."""

    sections: tuple[HealthSection, ...]
    is_node: bool = True
    is_online: bool = False

    def count(self, level: HealthLevel) -> int:
        """Return the number of findings of a level."""
        return sum(line.count for section in self.sections for line in section.lines if line.level is level)

    @property
    def has_findings(self) -> bool:
        """Whether there is a problem or a warning."""
        return bool(self.count(HealthLevel.PROBLEM) + self.count(HealthLevel.WARNING))

    @property
    def verdict(self) -> str:
        """The result in one line."""
        if not self.is_node:
            return "cannot tell: this machine does not look like a node"
        counts = ((self.count(level), level) for level in (HealthLevel.PROBLEM, HealthLevel.WARNING))
        told = ", ".join(_number(number, level) for number, level in counts if number)
        unknown = self.count(HealthLevel.UNKNOWN)
        if not unknown:
            return told or "all is well"
        unseen = f"{_number(unknown, 'thing')} could not be checked"
        return f"{told}, {unseen}" if told else f"all that can be seen is well, {unseen}"


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
