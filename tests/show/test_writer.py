"""The writer that everything for a terminal goes through, its reporter of notes and errors, and its live lines."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from keyferry.errors import ConfigError, EnvironmentProblem, Problem
from keyferry.show.text import table
from keyferry.show.writer import (
    Guard,
    Lines,
    LiveLines,
    Output,
    report,
    report_error,
    terminal_size,
)
from support.screen import Screen


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Always."""
        return True


def written(text: str, stream: io.StringIO | None = None, *, is_talk: bool = False) -> str:
    stream = stream or io.StringIO()
    Output(stream, is_talk=is_talk).write(text)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("a line\n", "a line\n", id="an end of a line"),
        pytest.param("\n", "\n", id="what print ends with"),
        pytest.param("a\nb", "a\ufffdb", id="a line break of somebody else"),
        pytest.param("a\n\n", "a\ufffd\n", id="one too many"),
        pytest.param("a\x1b[31mb\x9b\u202e\u2028\t", "a\ufffd[31mb\ufffd\ufffd\ufffd\ufffd", id="escapes"),
        pytest.param(Lines("a\n\tb\x1b[2J\n"), "a\n\tb\ufffd[2J\n", id="lines of our own"),
        pytest.param("a\rb\r", "a\ufffdb\ufffd", id="drawn over by somebody else"),
    ],
)
def test_what_is_written_is_harmless(text: str, shown: str) -> None:
    assert written(text) == shown
    assert written(text, is_talk=True) == shown


@pytest.mark.parametrize("text", ["\rdrawn anew", "\r   \r", "\rdone\r\033[K"])
def test_lines_drawn_anew_are_for_standard_error_alone(text: str) -> None:
    """A bar begins with a carriage return; nothing that others wrote does."""
    assert written(text, is_talk=True) == text
    assert "\r" not in written(text)
    assert written(text.lstrip("\r") + "\r", is_talk=True).endswith("\ufffd")


def test_only_our_own_colours_pass_and_only_where_colours_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else begins with an escape does not, and on standard error nothing does."""
    text = "\033[1;32myes\033[0m \033[8mhidden \033[2J\033]0;title\a"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert written(text, terminal) == "\033[1;32myes\033[0m \ufffd[8mhidden \ufffd[2J\ufffd]0;title\ufffd"
    assert written("\033[1ma\n\033[0m\n", Terminal()) == "\033[1ma\ufffd\033[0m\n"
    assert "\033" not in written(text, Terminal(), is_talk=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in written(text, Terminal())


def test_a_print_of_lines_keeps_them_and_of_a_part_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    """So that nobody can forget: only what was made as lines breaks them."""
    with Guard():
        for text in (table(("A", "B"), [("1\n2", "\x1b[0m")]), f"one {Lines('two' + chr(10) + 'three')}"):
            print(text)  # noqa: T201 - as commands do
    assert capsys.readouterr().out == "A     B\n1\ufffd2   \ufffd[0m\none two\ufffdthree\n"


def test_characters_that_cannot_be_encoded_are_escaped(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w", encoding="ascii") as stream:
        Output(stream).write("ä\x1b\u20ac")
    assert (tmp_path / "out").read_bytes() == b"\\xe4\\ufffd\\u20ac"


def test_exact_bytes_go_to_programs_and_harmless_text_to_people(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w", encoding="ascii") as stream:
        output = Output(stream)
        output.write("before ")
        output.write_exact(b"\x1b\xff\n\x9b")
    assert (tmp_path / "out").read_bytes() == b"before \x1b\xff\n\x9b"
    terminal = Terminal()
    Output(terminal).write_exact(b"a\x1b[2J\n")
    assert terminal.getvalue() == "a\ufffd[2J\n"


def test_each_note_is_a_line_with_our_name(capsys: pytest.CaptureFixture[str]) -> None:
    report("one", EnvironmentProblem("two\nkeyferry: planted"), "three \x1b[31m")
    report()
    shown = capsys.readouterr()
    assert shown.err == "keyferry: one\nkeyferry: two\ufffdkeyferry: planted\nkeyferry: three \ufffd[31m\n"
    assert shown.out == ""


def test_an_error_is_one_line_and_a_config_one_for_each_problem(capsys: pytest.CaptureFixture[str]) -> None:
    report_error(EnvironmentProblem("a\nkeyferry: planted"))
    report_error(ConfigError((Problem("x\ny", "one"), Problem("z", "two\r"))))
    report_error(ValueError())
    assert capsys.readouterr().err.split("\n") == [
        "keyferry: a\ufffdkeyferry: planted",
        "keyferry: x\ufffdy: one",
        "keyferry: z: two\ufffd",
        "keyferry: ValueError",
        "",
    ]


class LiveTerminal:
    """Live lines on the screen of a terminal, whose width can change."""

    def __init__(self, columns: int, rows: int = 24) -> None:
        self.size = (columns, rows)
        self._stream = io.StringIO()
        # Through the writer of standard error, which lets nothing else move the cursor.
        self.live = LiveLines(Output(self._stream, is_talk=True), lambda: self.size)  # type: ignore[arg-type] # writes as a stream does

    @property
    def text(self) -> str:
        """All that was written."""
        return self._stream.getvalue()

    @property
    def rows(self) -> list[str]:
        """What it shows."""
        return Screen(self.size[0]).feed(self.text.replace("\n", "\r\n")).rows


def test_new_lines_take_the_place_of_the_old_ones() -> None:
    terminal = LiveTerminal(40)
    terminal.live.draw(["one", "a longer line"])
    terminal.live.draw(["two", "short", "third"])
    assert terminal.rows == ["two", "short", "third"]
    terminal.live.draw(["one alone"])
    assert terminal.rows == ["one alone"]
    terminal.live.clear()
    assert terminal.rows == [""]


def test_what_is_said_stays_above() -> None:
    terminal = LiveTerminal(40)
    terminal.live.draw(["one", "two"])
    terminal.live.say("said")
    assert terminal.rows == ["said", "one", "two"]
    terminal.live.draw([])
    terminal.live.say("again")
    assert terminal.rows == ["said", "again", ""]


def test_nothing_is_wider_or_higher_than_the_terminal() -> None:
    """The last column stays empty: some terminals go to the next row after it."""
    terminal = LiveTerminal(10, 4)
    terminal.live.draw(["0123456789abc"] * 9)
    assert terminal.rows == ["012345678"] * 3
    assert terminal.live.columns == 9


def test_rows_of_a_terminal_that_became_narrower_are_taken_away() -> None:
    """A line of 30 characters takes two rows of 20; the cursor is in the last of them."""
    terminal = LiveTerminal(40)
    terminal.live.draw(["name", "x" * 30])
    before = len(terminal.text)
    terminal.size = (20, 24)
    terminal.live.draw(["name", "short"])
    assert terminal.text[before:].startswith("\r\033[2A")


def test_names_from_elsewhere_move_nothing() -> None:
    terminal = LiveTerminal(40)
    terminal.live.draw(["a\033[5A\rb\033[2Jc"])
    assert terminal.rows == ["a\ufffd[5A\ufffdb\ufffd[2Jc"]


def test_without_a_terminal_the_size_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> tuple[int, int]:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr("os.get_terminal_size", unknown)
    assert terminal_size() == (80, 24)
    monkeypatch.setattr("os.get_terminal_size", lambda _: (0, 0))
    assert terminal_size() == (80, 24)
