"""The parts of pages that targets of the Makefile write, each between two marks that name the target."""

from __future__ import annotations

from collections.abc import Sequence


def marks(target: str) -> tuple[str, str]:
    """Return the marks before and after what ``make TARGET`` writes."""
    return f"<!-- written by `make {target}`; do not edit -->", f"<!-- end of what `make {target}` writes -->"


def section(page: str, target: str) -> str:
    """Return what a page has between the marks of a target."""
    return _split(page, target)[1]


def with_section(page: str, target: str, text: str) -> str:
    """Return the page with *text* between the marks of a target; raise ValueError unless it has each mark once."""
    begin, end = marks(target)
    before, _, after = _split(page, target)
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"


def _split(page: str, target: str) -> tuple[str, str, str]:
    begin, end = marks(target)
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(
            f"the page does not have the marks of what 'make {target}' writes once each, in order"
        )
    before, _, rest = page.partition(begin)
    inside, _, after = rest.partition(end)
    return before, inside, after


def table(lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; the first line is its header."""
    ruled = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)
