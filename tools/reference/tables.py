"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [" | ".join(each) for each in (heads, *rows)]
    lines[1:1] = ["|".join(["---"] * len(heads))]
    return "".join(f"|{line}|\n" if line.startswith("---") else f"| {line} |\n" for line in lines)
