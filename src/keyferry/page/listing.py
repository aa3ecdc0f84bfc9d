"""Search in rows, and one page of what is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from keyferry._core.values import Value

__all__ = ["ListPage", "find_page", "searched"]

Row = TypeVar("Row")


class ListPage(Value):
    """One page of a list: the rows from *start* to *last*, of how many, and which of how many pages it is."""

    total: int
    page: int
    pages: int
    start: int
    last: int


def find_page(total: int, page: str, size: int) -> ListPage:
    """Return the page with the number *page*, which comes from an address: the nearest one if it is none."""
    pages = max(1, -(-total // size))
    # A long number takes long to read, and int() refuses it with an error.
    wanted = int(page) if page.isascii() and page.isdigit() and len(page) < 8 else 1
    number = min(max(1, wanted), pages)
    start = (number - 1) * size
    return ListPage(total=total, page=number, pages=pages, start=start, last=min(start + size, total))


def searched(rows: Iterable[Row], text: str, fields: Callable[[Row], Iterable[str]]) -> list[Row]:
    """Return the rows whose *fields* have every word of *text*, in any case."""
    words = text.casefold().split()
    if not words:
        return list(rows)
    return [row for row in rows if _has(" ".join(fields(row)).casefold(), words)]


def _has(text: str, words: list[str]) -> bool:
    return all(word in text for word in words)
