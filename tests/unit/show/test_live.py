"""Lines that are redrawn in place."""

from __future__ import annotations

import io

import pytest

from keyferry.show.writer import LiveLines, Output, terminal_size
from support.screen import Screen


class Terminal:
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
    terminal = Terminal(40)
    terminal.live.draw(["one", "a longer line"])
    terminal.live.draw(["two", "short", "third"])
    assert terminal.rows == ["two", "short", "third"]
    terminal.live.draw(["one alone"])
    assert terminal.rows == ["one alone"]
    terminal.live.clear()
    assert terminal.rows == [""]


def test_the_same_lines_are_not_written_again() -> None:
    terminal = Terminal(40)
    terminal.live.draw(["one"])
    before = terminal.text
    terminal.live.draw(["one"])
    assert terminal.text == before


def test_what_is_said_stays_above() -> None:
    terminal = Terminal(40)
    terminal.live.draw(["one", "two"])
    terminal.live.say("said")
    assert terminal.rows == ["said", "one", "two"]
    terminal.live.draw([])
    terminal.live.say("again")
    assert terminal.rows == ["said", "again", ""]


def test_nothing_is_wider_or_higher_than_the_terminal() -> None:
    """The last column stays empty: some terminals go to the next row after it."""
    terminal = Terminal(10, 4)
    terminal.live.draw(["0123456789abc"] * 9)
    assert terminal.rows == ["012345678"] * 3
    assert terminal.live.columns == 9


def test_rows_of_a_terminal_that_became_narrower_are_taken_away() -> None:
    """A line of 30 characters takes two rows of 20; the cursor is in the last of them."""
    terminal = Terminal(40)
    terminal.live.draw(["name", "x" * 30])
    before = len(terminal.text)
    terminal.size = (20, 24)
    terminal.live.draw(["name", "short"])
    assert terminal.text[before:].startswith("\r\033[2A")


def test_names_from_elsewhere_move_nothing() -> None:
    terminal = Terminal(40)
    terminal.live.draw(["a\033[5A\rb\033[2Jc"])
    assert terminal.rows == ["a\ufffd[5A\ufffdb\ufffd[2Jc"]


def test_without_a_terminal_the_size_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> tuple[int, int]:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr("os.get_terminal_size", unknown)
    assert terminal_size() == (80, 24)
    monkeypatch.setattr("os.get_terminal_size", lambda _: (0, 0))
    assert terminal_size() == (80, 24)
