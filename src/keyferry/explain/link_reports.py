"""The links that a plugin reports of its own steps, from the lines that it writes on standard error."""

from __future__ import annotations

from keyferry._core.secrets import redact
from keyferry.api.link_line import LinkLine, decode_link
from keyferry.explain.chain import Link, LinkState

__all__ = ["LinkReports"]

_MOST_LINKS = 16


class LinkReports:
    """Collects the lines of one run; nothing in them is trusted, and known secrets in them are masked."""

    def __init__(self) -> None:
        self._lines: list[LinkLine] = []

    def take(self, stderr: bytes) -> bytes:
        """Keep the links in *stderr*, and return the other lines; a line that is not valid stays there."""
        rest = []
        for line in stderr.splitlines(keepends=True):
            found = decode_link(line.rstrip(b"\r\n"))
            if found is None:
                rest.append(line)
            elif len(self._lines) < _MOST_LINKS:
                self._lines.append(found)
        return b"".join(rest)

    def links(self, known: tuple[str, ...]) -> tuple[Link, ...]:
        """Return the links in the plugin's order; *known* are the secrets of the run."""
        return tuple(_link(line, known) for line in self._lines)


def _link(line: LinkLine, known: tuple[str, ...]) -> Link:
    facts = {name: _fact(value, known) for name, value in line.facts.items()}
    return Link(
        name=f"plugin/{line.name}",
        state=LinkState(line.state),
        text=redact(line.text, known),
        facts=facts,
        cure=redact(line.cure, known),
        is_report=True,
    )


def _fact(value: object, known: tuple[str, ...]) -> object:
    if isinstance(value, list):
        return [redact(str(each), known) for each in value]
    return redact(value, known) if isinstance(value, str) else value
