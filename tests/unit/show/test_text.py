"""Sections, paragraphs and durations for people."""

import pytest

from keyferry.show.text import duration_text, sections, wrap
from keyferry.show.writer import Lines


def test_sections_stand_under_their_titles_and_empty_ones_are_left_out() -> None:
    shown = sections([("first", ["a", "b"]), ("nothing", iter(())), ("last", iter(["c"]))])
    assert isinstance(shown, Lines)
    assert shown == "FIRST\n  a\n  b\n\nLAST\n  c"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "less than a second"),
        (1, "1 s"),
        (59.6, "1 min"),
        (3_700, "1 h 1 min"),
        (90_061, "1 d 1 h"),
        (-61, "1 min 1 s"),
        (86_401, "1 d 1 s"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_paragraph_is_wrapped_beside_its_title_and_no_word_is_broken() -> None:
    word = "x" * 200
    assert list(wrap("found", f"{'word ' * 30}{word}")) == [
        f"    found     {' '.join(['word'] * 19)}",
        f"              {' '.join(['word'] * 11)}",
        f"              {word}",
    ]


def test_an_empty_paragraph_keeps_its_title() -> None:
    assert list(wrap("why", "")) == ["    why       "]
    assert list(wrap("why", "a\nb")) == ["    why       a\ufffdb"]
