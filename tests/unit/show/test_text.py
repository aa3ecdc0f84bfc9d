"""Sections, paragraphs and durations for people."""

from __future__ import annotations

import pytest

from keyferry.show.text import (
    Whole,
    display_width,
    duration_text,
    fold,
    fold_help,
    sections,
    text_width,
    wrap,
)
from keyferry.show.writer import Lines, style


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


def test_a_paragraph_is_wrapped_beside_its_title_and_no_word_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "108")
    word = "x" * 200
    assert list(wrap("found", f"{'word ' * 30}{word}")) == [
        f"    found     {' '.join(['word'] * 19)}",
        f"              {' '.join(['word'] * 11)}",
        f"              {word}",
    ]


def test_an_empty_paragraph_keeps_its_title() -> None:
    assert list(wrap("why", "")) == ["    why       "]
    assert list(wrap("why", "a\nb")) == ["    why       a\ufffdb"]


@pytest.mark.parametrize(
    ("columns", "width"),
    [("60", 60), ("1000", 1000), ("", 100), ("0", 100), ("wide", 100), ("-5", 100), ("²", 100)],
)
def test_the_width_is_that_of_columns_else_that_of_a_page(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert text_width() == width


def test_lines_are_folded_below_the_text_after_the_lead() -> None:
    assert list(fold("one two three four", "  + ", "    ", width=40)) == ["  + one two three four"]
    assert list(fold("one two three four five", "  + ", "    ", width=28)) == [
        "  + one two three four five",
    ]
    assert list(fold("a" * 20 + " " + "b" * 20, "  + ", "    ", width=30)) == [
        "  + " + "a" * 20,
        "    " + "b" * 20,
    ]


@pytest.mark.parametrize("width", [1, 10, 25, 38])
def test_a_narrow_terminal_has_a_small_indent_and_whole_words(width: int) -> None:
    folded = list(fold("words that are not broken", " " * 30, " " * 30, width=width))
    assert " ".join(line.strip() for line in folded) == "words that are not broken"
    assert all(len(line) - len(line.lstrip()) <= 2 for line in folded[1:])


def test_a_style_is_on_each_of_the_lines_that_it_is_folded_to() -> None:
    """A pager that shows the second line alone shows it in its colour; the indent has none."""
    text = f"a {style('green words that go on and on to the end', 'green', coloured=True)} plain"
    assert list(fold(text, "  ", "    ", width=32)) == [
        "  a \033[32mgreen words that go on and\033[0m",
        "    \033[32mon to the end\033[0m plain",
    ]
    assert list(fold(text, width=200)) == [text]


def test_sections_fold_below_a_mark_and_leave_commands_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = " ".join(["word"] * 10)
    assert sections([("t", [f"! {long}", f"12. {long}", f"  {long}", Whole(long)])]).splitlines() == [
        "T",
        "  ! word word word word word word word",
        "    word word word",
        "  12. word word word word word word word",
        "      word word word",
        "    word word word word word word word",
        "      word word word",
        f"  {long}",
    ]
    assert sections([("t", [long])]).splitlines() == [
        "T",
        "  word word word word word word word",
        "  word word word",
    ]


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("", 0), ("ä", 1), ("a\u0308", 1), ("漢字", 4), ("\033[1;32mok\033[0m", 2)],
)
def test_the_width_on_a_terminal_is_not_the_number_of_characters(text: str, width: int) -> None:
    assert display_width(text) == width


def test_help_is_folded_by_paragraph_and_below_its_second_column() -> None:
    example = "  keyferry get an-image --with --many --options"
    text = f"one two three\nfour five six\n\n  name  a text that is long enough to fold\n{example}"
    assert fold_help(text, 34).split("\n") == [
        "one two three four five six",
        "",
        "  name  a text that is long enough",
        "        to fold",
        example,
    ]


@pytest.mark.parametrize("text", ["one\n", "one\n\n\ntwo", "\none", "one\n\n  name  text\n\ntwo\n"])
def test_help_keeps_its_empty_lines(text: str) -> None:
    """They are neither part of a paragraph nor lost."""
    assert fold_help(text, 34) == text
