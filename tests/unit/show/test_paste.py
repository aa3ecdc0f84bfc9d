"""Command lines survive a shell."""

from __future__ import annotations

import shlex

import pytest

from keyferry.show.paste import join_words, quote_word


@pytest.mark.parametrize("word", ["", "a", "reg.io:5000/a@b", "it's", "a b", "$HOME", "ä", "*", "-n", "a\nb"])
def test_a_word_is_one_word_of_a_shell(word: str) -> None:
    assert shlex.split(join_words("echo", word, "x")) == ["echo", word, "x"]
    assert quote_word(word) == shlex.quote(word)
