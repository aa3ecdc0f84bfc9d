"""Command lines that somebody copies into a shell."""

from __future__ import annotations

__all__ = ["join_words", "quote_word"]

# As in shlex, which is imported only for a word with other characters.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


def join_words(*words: str) -> str:
    """Return a command line of *words*, each quoted for a shell where that is necessary."""
    return " ".join(map(quote_word, words))


def quote_word(word: str) -> str:
    """Return *word* quoted for a shell, if that is necessary."""
    if word and _PLAIN.issuperset(word):
        return word
    from shlex import quote

    return quote(word)
