"""A text about one of many pods, in which the names that are not those of all are told as an example's."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["mark_examples"]

_WORD = re.compile(r"""(?P<quote>['"]?)(?P<word>\w[\w./:@-]*\w)(?P=quote)""")


def mark_examples(text: str, names: Iterable[str]) -> str:
    """Return *text* with a note after the first place of each of the *names*, quoted or in a path.

    A bare word is left as it is, since a namespace may be called 'registry'.
    """
    left = set(names)

    def mark(found: re.Match[str]) -> str:
        word = found["word"]
        hits = left & {word, *word.split("/")}
        if not hits or not (found["quote"] or "/" in word):
            return found[0]
        left.difference_update(hits)
        return f"{found[0]} (for example)"

    return _WORD.sub(mark, text)
