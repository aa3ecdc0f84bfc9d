"""Fold text into lines: how wide it is on a terminal, and where it may be broken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from unicodedata import combining, east_asian_width

# The fewest columns of text beside an indent: on a narrower terminal, the indent is reduced.
_NARROWEST = 24
# A command that a sentence quotes, with what follows it without a space; or a word.
_PART = r"[(]?'[^' ]+ [^']*'\S*|\S+"


def display_width(text: str) -> int:
    """Return the number of columns that printable *text* takes, without keyferry's own styles."""
    bare = re.sub(r"\033\[[0-9;]*m", "", text) if "\033" in text else text
    if bare.isascii():
        return len(bare)
    return sum(1 + (east_asian_width(char) in ("W", "F")) for char in bare if not combining(char))


def fold_words(words: Iterable[str], first: str, rest: str, columns: int) -> Iterator[str]:
    """Yield *words* in lines of at most *columns*; the first line follows *first* and the others *rest*.

    No word is broken, so that it can be copied.
    """
    if columns - display_width(rest) < _NARROWEST:
        rest = rest[: max(0, min(len(rest), columns - _NARROWEST, 2))]
    line, is_empty = first, True
    for word in words:
        if not is_empty and display_width(line) + 1 + display_width(word) > columns:
            yield line
            line, is_empty = rest, True
        line += word if is_empty else f" {word}"
        is_empty = False
    yield line


def fold_sentence(text: str, first: str, rest: str, columns: int) -> Iterator[str]:
    """Yield a sentence in lines like `fold_words`; a command that it quotes is one word, so that it stays whole."""
    return fold_words(re.findall(_PART, text), first, rest, columns)
