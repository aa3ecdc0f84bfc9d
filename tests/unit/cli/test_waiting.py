"""What is said while a command waits."""

from __future__ import annotations

import io

import pytest

from keyferry.cli.waiting import Waiting
from support.plugins import wait_until
from support.terminal import screen


class Stream(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """What it was told to say."""
        return self._is_terminal


@pytest.mark.parametrize("fails", [False, True])
def test_a_terminal_shows_what_is_waited_for_and_nothing_of_it_stays(fails: bool) -> None:
    stream = Stream(is_terminal=True)
    try:
        with Waiting("running a\x1b[2J" + "b" * 200, 60, stream=stream, tick_seconds=0.01):
            wait_until(lambda: stream.getvalue().count("\r") > 2, "the line")
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert fails
    shown = stream.getvalue()
    assert "\rrunning a\ufffd[2Jbbb" in shown
    assert "\n" not in shown
    assert max(map(len, shown.split("\r"))) < 80
    assert screen(shown) == ""


def test_the_seconds_and_their_limit_are_shown() -> None:
    stream = Stream(is_terminal=True)
    with Waiting("running a", 60, stream=stream, tick_seconds=0.01):
        wait_until(lambda: "s of 60" in stream.getvalue(), "the line")
    assert "running a, 0 s of 60" in stream.getvalue()


def test_nothing_is_shown_elsewhere_or_before_the_first_second() -> None:
    for stream in (Stream(is_terminal=False), Stream(is_terminal=True)):
        with Waiting("running a", stream=stream):
            pass
        assert stream.getvalue() == ""
