"""The health of a node: levels, lines, sections and the verdict over all, as values, as a document and as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from enum import StrEnum

from keyferry._core.host_root import place_on_host
from keyferry._core.secrets import printable
from keyferry._core.values import Value, replace
from keyferry.show.documents import make_document
from keyferry.show.text import Mark, Whole, mark, sections
from keyferry.show.writer import Lines, style

__all__ = [
    "HealthLevel",
    "HealthLine",
    "HealthSection",
    "Hints",
    "NodeHealth",
    "health_document",
    "make_line",
    "render_health",
]


class HealthLevel(StrEnum):
    """How a checked thing is; *unknown* if it cannot be seen from here, *next* if it is only proposed."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    NEXT = "next"


_NOT_WELL = (HealthLevel.PROBLEM, HealthLevel.WARNING, HealthLevel.UNKNOWN)


class HealthLine(Value):
    """One checked thing: *subject* is its name, *next_command* what to type to learn more or to cure it.

    *count* is the number of findings that the line stands for, as in "and 5 more warnings".
    """

    level: HealthLevel
    subject: str
    text: str
    next_command: str = ""
    count: int = 1


def make_line(
    level: HealthLevel, subject: str, text: str, next_command: str = "", *, count: int = 1
) -> HealthLine:
    """Return one line."""
    return HealthLine(level=level, subject=subject, text=text, next_command=next_command, count=count)


class HealthSection(Value):
    """The lines about one subject."""

    title: str
    lines: tuple[HealthLine, ...]


class NodeHealth(Value):
    """All sections; *is_node* tells whether anything of a node was found, *told_by* which node said so from afar."""

    sections: tuple[HealthSection, ...]
    is_node: bool = True
    is_online: bool = False
    told_by: str = ""

    def count(self, level: HealthLevel) -> int:
        """Return the number of findings of a level."""
        return sum(line.count for section in self.sections for line in section.lines if line.level is level)

    @property
    def has_findings(self) -> bool:
        """Whether there is a problem or a warning."""
        return bool(self.count(HealthLevel.PROBLEM) + self.count(HealthLevel.WARNING))

    def without_what_is_well(self) -> NodeHealth:
        """Return the lines that are a problem or a warning, or that could not be checked; the verdict stays."""
        sections = (
            replace(section, lines=tuple(line for line in section.lines if line.level in _NOT_WELL))
            for section in self.sections
        )
        return replace(self, sections=tuple(section for section in sections if section.lines))

    @property
    def verdict(self) -> str:
        """The result in one line."""
        if not self.is_node:
            what = self.told_by or "this machine"
            return f"cannot tell: {what} does not look like a node"
        counts = ((self.count(level), level) for level in (HealthLevel.PROBLEM, HealthLevel.WARNING))
        told = ", ".join(_number(number, level) for number, level in counts if number)
        unknown = self.count(HealthLevel.UNKNOWN)
        if not unknown:
            return told or "all is well"
        unseen = f"{_number(unknown, 'thing')} could not be checked"
        return f"{told}, {unseen}" if told else f"all that can be seen is well, {unseen}"


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Hints(Value):
    """The commands that lines propose, with the options that were given, so that they work when they are pasted.

    *shared* are the options that commands about images have too.
    """

    shared: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def doctor(self, *more: str, is_root: bool = False) -> str:
        """Return this command again, as root or with more options."""
        start = ("sudo", "keyferry") if is_root else ("keyferry",)
        return shlex.join((*start, "doctor", *self.shared, *self.others, *more))

    def about_image(self, command: str, image: str = "registry.example/image", *more: str) -> str:
        """Return a command about an image."""
        return shlex.join(("keyferry", command, image, *self.shared, *more))

    def lint(self, path: str, bin_dir: str = "") -> str:
        """Return a lint of a file or folder, with its plugins, where this process finds them."""
        plugins = ("--bin-dir", place_on_host(bin_dir)) if bin_dir else ()
        return shlex.join(("keyferry", "lint", place_on_host(path), *plugins))


def health_document(health: NodeHealth) -> dict[str, object]:
    """Return the output of ``keyferry doctor``."""
    return make_document(
        "NodeHealth",
        verdict=health.verdict,
        isNode=health.is_node,
        online=health.is_online,
        toldBy=health.told_by,
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
    told = f"\n{style(printable(f'from {health.told_by}'), 'dim')}" if health.told_by else ""
    body = sections((section.title, _lines(section.lines)) for section in health.sections)
    return Lines(f"{verdict}{told}\n\n{body}" if body else f"{verdict}{told}")


def _colour(health: NodeHealth) -> str:
    if health.count(HealthLevel.PROBLEM):
        return "red"
    return "yellow" if health.has_findings or not health.is_node else "green"


def _lines(lines: tuple[HealthLine, ...]) -> Iterator[str]:
    """Yield the lines of a section; a command that several of them share is told once, below the last."""
    for at, line in enumerate(lines):
        level = f"{line.level}: " if line.level in (HealthLevel.WARNING, HealthLevel.PROBLEM) else ""
        text = f"{level}{printable(line.subject)}: {printable(line.text)}"
        yield f"{mark(_MARKS[line.level])} {text}"
        if line.next_command and line.next_command not in {each.next_command for each in lines[at + 1 :]}:
            yield Whole(f"    try: {style(printable(line.next_command), 'bold')}")
