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
from keyferry.show.writer import Lines, style


def test_sections_stand_under_their_titles_and_empty_ones_are_left_out() -> None:
    shown = sections([("first", ["a", "b"]), ("nothing", iter(())), ("last", iter(["c"]))])
    assert isinstance(shown, Lines)
    assert shown == "FIRST\n  a\n  b\n\nLAST\n  c"


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
    assert list(fold("one two three four five", "  + ", "    ", width=28)) == ["  + one two three four five"]
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


HEADER = ("IMAGE", "RESULT", "WHY")


ROWS = [("reg.io/app:v1", "pulled", "it was not present on this node"), ("b\x1b", "failed", "see below")]


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Always."""
        return True


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(HEADER, ROWS).split("\n") == [
        "IMAGE           RESULT   WHY",
        "reg.io/app:v1   pulled   it was not present on this node",
        "b\ufffd              failed   see below",
    ]


def test_a_narrow_terminal_gets_a_paragraph_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "56")
    assert fitting_table(HEADER, ROWS) == table(HEADER, ROWS)
    monkeypatch.setenv("COLUMNS", "38")
    assert fitting_table(HEADER, ROWS).split("\n") == [
        "reg.io/app:v1",
        "  RESULT  pulled",
        "  WHY     it was not present on this",
        "          node",
        "",
        "b\ufffd",
        "  RESULT  failed",
        "  WHY     see below",
    ]


def test_programs_get_the_table_however_wide_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "20")
    assert fitting_table(HEADER, ROWS) == table(HEADER, ROWS)


def test_a_mark_in_front_stands_before_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "30")
    rows = [("*", "prod", "https://prod.example:6443/"), ("", "test", "https://test.example:6443/")]
    assert fitting_table(("CURRENT", "NAME", "SERVER"), rows).split("\n") == [
        "* prod",
        "  SERVER  https://prod.example:6443/",
        "",
        "test",
        "  SERVER  https://test.example:6443/",
    ]


def marks(encoding: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    return "".join(map(mark, Mark))


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "✓✗?!i-→"), ("ascii", "+x?!i->"), ("iso-8859-1", "+x?!i->"), ("cp437", "+x?!i->")],
)
def test_marks_are_those_that_the_output_can_encode(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert marks(encoding, monkeypatch) == shown


def test_marks_have_colours_if_the_output_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert mark(Mark.UNKNOWN) == "\033[33;1m?\033[0m"


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


def test_a_long_token_is_cut_too() -> None:
    _, shown, mark = source_frame("- " + "x" * 300, 1, 3, 300, 60)
    assert len(shown) <= 60
    assert shown.endswith("...")
    assert len(mark) <= 60


def test_a_line_of_megabytes_is_cut_at_once() -> None:
    begin = time.process_time()
    frames = []
    for count in (20, 500_000):
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
