"""What is told of a pull meanwhile: lines that are redrawn, plain lines, and nothing if nobody wants it."""

from __future__ import annotations

import io

import pytest

from keyferry.cli.pull import kept_lines
from keyferry.cli.pull_progress import ProgressReporter
from keyferry.pulls.request import Progress
from support.plugins import wait_until

NAME = "reg.io/a\x1b[2J:v1"


class Stream(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """What it was told to say."""
        return self._is_terminal


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def narrate(*, is_terminal: bool, has_bytes: bool, is_alone: bool = True, is_quiet: bool = False) -> str:
    stream = Stream(is_terminal=is_terminal)
    reporter = ProgressReporter(is_quiet=is_quiet, is_alone=is_alone, stream=stream)
    with reporter, reporter.reporting(NAME) as on_progress:
        if has_bytes:
            on_progress(Progress(done=50, total=100, layers_done=1, layers=2))
        if is_terminal and not is_quiet:
            wait_until(lambda: "\x1b[J" in stream.getvalue(), "a line")
    return stream.getvalue()


def test_a_runtime_on_a_terminal_has_a_clock_that_is_gone_at_the_end() -> None:
    """It tells of no bytes; seconds are all there is."""
    shown = narrate(is_terminal=True, has_bytes=False)
    assert " pulling reg.io/a\ufffd[2J:v1: 0 s" in shown
    assert shown.endswith("\r\x1b[J")
    assert "\n" not in shown


def test_a_folder_on_a_terminal_has_a_name_and_a_bar() -> None:
    """Or one line with both, if there are several."""
    shown = narrate(is_terminal=True, has_bytes=True)
    assert "pulling reg.io/a\ufffd[2J:v1\x1b[K\n[#" in shown
    assert " 50 %  1/2 layers  50/100 B" in shown
    several = narrate(is_terminal=True, has_bytes=True, is_alone=False)
    assert "\rreg.io/a\ufffd[2J:v1  [#" in several
    assert "\n" not in several


@pytest.mark.parametrize("is_alone", [True, False])
def test_elsewhere_there_is_a_line_at_the_start(is_alone: bool) -> None:
    """Nothing moves a cursor, and a quick pull has no other line."""
    for has_bytes in (True, False):
        shown = narrate(is_terminal=False, has_bytes=has_bytes, is_alone=is_alone)
        assert shown == "pulling reg.io/a\ufffd[2J:v1\n"


def test_a_log_has_a_line_every_ten_seconds() -> None:
    stream, clock = Stream(is_terminal=False), Clock()
    reporter = ProgressReporter(is_quiet=False, is_alone=True, stream=stream, clock=clock)
    with reporter, reporter.reporting("app:v1") as on_progress:
        for second in range(25):
            clock.now = float(second)
            on_progress(Progress(done=second * 1024, total=102400, layers_done=second // 10, layers=4))
    assert stream.getvalue().splitlines() == [
        "pulling app:v1",
        "app:v1: 10.0/100.0 KiB, 1 of 4 layers, 1.0 KiB/s",
        "app:v1: 20.0/100.0 KiB, 2 of 4 layers, 1.0 KiB/s",
    ]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_pull_that_goes_on_says_so_once(is_terminal: bool) -> None:
    stream = Stream(is_terminal=is_terminal)
    reporter = ProgressReporter(is_quiet=False, is_alone=True, stream=stream)
    with reporter, reporter.reporting("app:v1") as on_progress:
        for done in (30, 40, 50):
            on_progress(Progress(done=done, total=100, layers_done=0, layers=1, found=30))
    assert stream.getvalue().count("app:v1: goes on from the 30 of 100 B that are already there\n") == 1


@pytest.mark.parametrize("found", [0, 100])
def test_a_pull_of_nothing_or_of_everything_does_not_go_on(found: int) -> None:
    stream = Stream(is_terminal=False)
    reporter = ProgressReporter(is_quiet=False, is_alone=True, stream=stream)
    with reporter, reporter.reporting("app:v1") as on_progress:
        on_progress(Progress(done=found, total=100, layers_done=0, layers=1, found=found))
    assert stream.getvalue() == "pulling app:v1\n"


def test_whoever_wants_quiet_gets_it() -> None:
    """Whatever the stream."""
    for is_terminal in (True, False):
        assert narrate(is_terminal=is_terminal, has_bytes=True, is_quiet=True) == ""


def test_a_dumb_terminal_is_not_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Stream(is_terminal=True)
    reporter = ProgressReporter(is_quiet=False, is_alone=True, stream=stream)
    with reporter, reporter.reporting("app:v1"):
        pass
    assert stream.getvalue() == "pulling app:v1\n"


def test_what_is_kept_is_known_even_in_quiet() -> None:
    stream = Stream(is_terminal=True)
    reporter = ProgressReporter(is_quiet=True, is_alone=False, stream=stream)
    with reporter, reporter.reporting("a:v1") as one, reporter.reporting("b:v1") as two:
        one(Progress(done=30, total=100, layers_done=0, layers=1))
        two(Progress(done=0, total=100, layers_done=0, layers=1))
    assert list(kept_lines(reporter.reached, "/images")) == [
        "a:v1: 30 of 100 B are kept in /images",
        "the same command goes on from there",
    ]
    assert list(kept_lines({}, "/images")) == []
