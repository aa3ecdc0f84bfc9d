"""Suggestions for a word that is not known but close to one that is."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that names the closest of the *known* words; empty if none is close."""
    words = {each.lower(): each for each in known}
    close = get_close_matches(word.lower(), words, 1)
    return f"; did you mean {words[close[0]]!r}?" if close else ""
