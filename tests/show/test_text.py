"""Sections, paragraphs, tables, marks, frames and durations for people."""

from __future__ import annotations

import io
import sys
import time

import pytest

from keyferry.show.folding import display_width, fold_sentence
from keyferry.show.text import (
    Mark,
    Whole,
    cut_middle,
    duration_text,
    fitting_table,
    fold,
    fold_help,
    mark,
    sections,
    source_frame,
    table,
    text_width,
    wrap,
)
from keyferry.show.writer import style


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "less than a second"), (1, "1 s"), (59.6, "1 min"), (3_700, "1 h 1 min"), (90_061, "1 d 1 h"),
        (-61, "1 min 1 s"), (86_401, "1 d 1 s"),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three four", 40, ["  + one two three four"]),
        ("one two three four five", 28, ["  + one two three four five"]),
        (f"{'a' * 20} {'b' * 20}", 30, [f"  + {'a' * 20}", f"    {'b' * 20}"]),
        (f"{'a' * 20} {'b' * 20}", 20, [f"  + {'a' * 20}", "b" * 20]),
        (f"{'a' * 20} {'b' * 20}", 1, [f"  + {'a' * 20}", "b" * 20]),
    ],
)
def test_words_stay_whole_and_the_indent_shrinks_on_a_narrow_terminal(
    text: str, width: int, lines: list[str]
) -> None:
    assert list(fold(text, "  + ", "    ", width=width)) == lines


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
    for kept in ("one\n", "one\n\n\ntwo", "\none", "one\n\n  name  text\n\ntwo\n"):
        assert fold_help(kept, 34) == kept, "empty lines stay"


HEADER = ("IMAGE", "RESULT", "WHY")


ROWS = [("reg.io/app:v1", "pulled", "it was not present on this node"), ("b\x1b", "failed", "see below")]


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Always."""
        return True


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(HEADER, [*ROWS, ("漢字", "", "wide")]).split("\n") == [
        "IMAGE           RESULT   WHY",
        "reg.io/app:v1   pulled   it was not present on this node",
        "b\ufffd              failed   see below",
        "漢字                     wide",
    ]


def test_a_narrow_terminal_gets_a_paragraph_for_each_row_and_programs_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mark in front stands before the name; a line end in a cell begins no line."""
    rows = [
        ("*", "prod", "https://prod.example:6443/"),
        ("", "te\nst", "https://test.example:6443/ of\nours"),
    ]
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert fitting_table(("CURRENT", "NAME", "SERVER"), rows) == table(("CURRENT", "NAME", "SERVER"), rows)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert fitting_table(("CURRENT", "NAME", "SERVER"), rows).split("\n") == [
        "* prod",
        "  SERVER  https://prod.example:6443/",
        "",
        "te\ufffdst",
        "  SERVER  https://test.example:6443/",
        "  of\ufffdours",
    ]


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "✓✗?!i-→"), ("ascii", "+x?!i->"), ("iso-8859-1", "+x?!i->"), ("cp437", "+x?!i->")],
)
def test_marks_are_those_that_the_output_can_encode(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert "".join(map(mark, Mark)) == shown


@pytest.mark.parametrize(
    ("line", "column", "length", "shown", "mark"),
    [
        pytest.param("  - reg.io/*", 5, 8, "  - reg.io/*", "    ^^^^^^^^", id="plain"),
        pytest.param("a: 名前 x", 7, 1, "a: 名前 x", "        ^", id="wide characters"),
        pytest.param("e\u0301: x", 5, 1, "e\u0301: x", "   ^", id="combining character"),
        pytest.param("\ta: b", 2, 1, "    a: b", "    ^", id="tab"),
        pytest.param("a", 9, 1, "a", " ^", id="beyond the end"),
        pytest.param("a\x1b[2Jb", 1, 1, "a\ufffd[2Jb", "^", id="control character"),
        pytest.param("", 1, 1, "", "^", id="empty line"),
    ],
)
def test_the_mark_stands_below_the_place(line: str, column: int, length: int, shown: str, mark: str) -> None:
    assert source_frame(line, 7, column, length, 80) == ("  |", f"7 | {shown}".rstrip(), f"  | {mark}")


@pytest.mark.parametrize("column", [1, 40, 150, 295])
@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_a_long_line_is_cut_around_the_place(column: int, width: int) -> None:
    line = "".join(chr(ord("a") + at % 26) for at in range(300))
    _, shown, mark = source_frame(line, 12, column, 4, width)
    assert len(shown) <= max(width, 25)
    at = mark.index("^")
    assert shown[at : at + 4] == line[column - 1 : column + 3]
    assert "..." in shown
    _, shown, mark = source_frame("- " + "x" * 300, 1, 3, 300, width)
    assert shown.endswith("..."), "a long word is cut too"
    assert max(len(shown), len(mark)) <= max(width, 25)


def test_a_line_of_megabytes_is_cut_at_once() -> None:
    begin = time.process_time()
    frames = []
    for count in (20, 50_000):
        side = "名e\u0301" * count
        frames.append(source_frame(f"{side}here{side}", 1, len(side) + 1, 4, 60))
    assert time.process_time() - begin < 10
    assert frames[0] == frames[1]


def test_a_command_in_a_sentence_stays_whole() -> None:
    """It is copied; quotes around one word, and apostrophes, are no command."""
    text = (
        "the node's config has no provider 'ecr'; start one with 'keyferry agent run --socket /a b', or wait"
    )
    assert list(fold_sentence(text, "keyferry: ", "          ", 40)) == [
        "keyferry: the node's config has no",
        "          provider 'ecr'; start one with",
        "          'keyferry agent run --socket /a b',",
        "          or wait",
    ]


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [
        ("short", 10, "short"),
        ("registry.example/team/app:v1", 15, "regist...app:v1"),
        ("\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57", 11, "\u6f22\u5b57...\u6f22\u5b57"),
    ],
)
def test_of_a_text_that_is_too_long_both_ends_stay(text: str, columns: int, cut: str) -> None:
    assert cut_middle(text, columns) == cut
    assert display_width(cut) <= columns
