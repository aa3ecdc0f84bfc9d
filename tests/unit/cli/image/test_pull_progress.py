"""What is told of a pull meanwhile: a clock, a bar or plain lines, and nothing if nobody wants it."""

import io

import pytest

from keyferry.cli.image.pull_progress import ProgressReporter
from keyferry.pulls.layout.blobs import Progress
from support.plugins import wait_until


class Stream(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """What it was told to say."""
        return self._is_terminal


def narrate(*, is_terminal: bool, has_bytes: bool, is_alone: bool = True, is_quiet: bool = False) -> str:
    stream = Stream(is_terminal=is_terminal)
    reporter = ProgressReporter(is_quiet=is_quiet, has_bytes=has_bytes, is_alone=is_alone, stream=stream)
    with reporter.reporting("reg.io/a\x1b[2J:v1") as on_progress:
        if on_progress is not None:
            on_progress(Progress(50, 100))
        elif is_terminal and is_alone and not is_quiet:
            wait_until(lambda: "pulling" in stream.getvalue(), "the clock")
    return stream.getvalue()


def test_a_runtime_on_a_terminal_has_a_clock_that_is_gone_at_the_end() -> None:
    """It tells of no bytes; seconds are all there is."""
    shown = narrate(is_terminal=True, has_bytes=False)
    assert "| pulling reg.io/a\ufffd[2J:v1: 0 s" in shown
    assert shown.endswith(" \r")
    assert "\n" not in shown


def test_a_folder_on_a_terminal_has_a_bar() -> None:
    """Of bytes."""
    assert "50 % of 100 B" in narrate(is_terminal=True, has_bytes=True)


@pytest.mark.parametrize(("is_terminal", "is_alone"), [(False, True), (False, False), (True, False)])
def test_elsewhere_and_for_several_at_once_there_are_plain_lines(is_terminal: bool, is_alone: bool) -> None:
    """None of which moves a cursor."""
    for has_bytes in (True, False):
        shown = narrate(is_terminal=is_terminal, has_bytes=has_bytes, is_alone=is_alone)
        assert shown.startswith("pulling reg.io/a\ufffd[2J:v1\n")
        assert "\r" not in shown


def test_whoever_wants_quiet_gets_it() -> None:
    """Whatever the stream."""
    for is_terminal in (True, False):
        assert narrate(is_terminal=is_terminal, has_bytes=True, is_quiet=True) == ""
