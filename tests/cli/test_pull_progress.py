"""What is told of a pull meanwhile: the figures of its line, plain lines for a log, and nothing if nobody wants it.

What a person sees on a real terminal is in ``tests/pulls/test_terminal.py``.
"""

from __future__ import annotations

import io

import pytest

import keyferry
from keyferry.cli.pull_progress import ProgressReporter, Speed, progress_line
from support.plugins import wait_until

MIB = 1 << 20


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


def test_a_runtime_on_a_terminal_has_a_clock_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells of no bytes; seconds are all there is. The name cannot harm the terminal."""
    monkeypatch.setenv("TERM", "xterm")
    stream = Stream(is_terminal=True)
    reporter = ProgressReporter(is_quiet=False, is_alone=True, stream=stream)
    with reporter, reporter.reporting("reg.io/a\x1b[2J:v1"):
        wait_until(lambda: "\x1b[J" in stream.getvalue(), "a line")
    shown = stream.getvalue()
    assert " pulling reg.io/a\ufffd[2J:v1: 0 s" in shown
    assert shown.endswith("\r\x1b[J")
    assert "\n" not in shown


def test_a_log_has_a_line_at_the_start_and_every_ten_seconds() -> None:
    """With the speed of the last five; bytes that were discarded make no negative one."""
    stream, clock = Stream(is_terminal=False), Clock()
    reporter = ProgressReporter(is_quiet=False, is_alone=True, stream=stream, clock=clock)
    with reporter, reporter.reporting("app\x1b[2J:v1") as on_progress:
        for second in range(45):
            clock.now = float(second)
            done = (second if second < 28 else second - 28) * 1024
            on_progress(keyferry.Progress(done=done, total=102400, layers_done=second // 10, layers=4))
    assert stream.getvalue().splitlines() == [
        "pulling app\ufffd[2J:v1",
        "app\ufffd[2J:v1: 10.0/100.0 KiB, 1 of 4 layers, 1.0 KiB/s",
        "app\ufffd[2J:v1: 20.0/100.0 KiB, 2 of 4 layers, 1.0 KiB/s",
        "app\ufffd[2J:v1: 2.0/100.0 KiB, 3 of 4 layers, 1.0 KiB/s",
        "app\ufffd[2J:v1: 12.0/100.0 KiB, 4 of 4 layers, 1.0 KiB/s",
    ]


@pytest.mark.parametrize("found", [0, 100])
def test_a_pull_of_nothing_or_of_everything_does_not_go_on(found: int) -> None:
    stream = Stream(is_terminal=False)
    reporter = ProgressReporter(is_quiet=False, is_alone=True, stream=stream)
    with reporter, reporter.reporting("app:v1") as on_progress:
        on_progress(keyferry.Progress(done=found, total=100, layers_done=0, layers=1, found=found))
    assert stream.getvalue() == "pulling app:v1\n"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_whoever_wants_quiet_gets_it(is_terminal: bool) -> None:
    """And still learns after an interrupt what is kept."""
    stream = Stream(is_terminal=is_terminal)
    reporter = ProgressReporter(is_quiet=True, is_alone=False, stream=stream)
    progress = keyferry.Progress(done=30, total=100, layers_done=0, layers=1, found=10)
    with reporter, reporter.reporting("a:v1") as on_progress:
        on_progress(progress)
    assert stream.getvalue() == ""
    assert reporter.reached == {"a:v1": progress}


HALF = keyferry.Progress(done=20 * MIB, total=40 * MIB, layers_done=2, layers=5)
LABEL = "registry.example/team/app:v1"


@pytest.mark.parametrize(
    ("columns", "label", "line"),
    [
        (100, "", "[####################....................]  50 %  2/5 layers  20.0/40.0 MiB  4.0 MiB/s  5 s left"),
        (79, "", "[###########............]  50 %  2/5 layers  20.0/40.0 MiB  4.0 MiB/s  5 s left"),
        (59, "", "[#####.....]  50 %  2/5  20.0/40.0 MiB  4.0 MiB/s  5 s left"),
        (40, "", "[###....]  50 %  20.0/40.0 MiB  5 s left"),
        (37, "", " 50 %  2/5  20.0/40.0 MiB  5 s left"),
        (30, "", " 50 %  20.0/40.0 MiB  5 s left"),
        (20, "", " 50 %"),
        (110, LABEL, f"{LABEL}  [############............]  50 %  2/5 layers  20.0/40.0 MiB  4.0 MiB/s  5 s left"),
        (79, LABEL, f"{LABEL}  [#####......]  50 %  2/5  20.0/40.0 MiB  5 s left"),
        (59, LABEL, "....example/team/app:v1   50 %  20.0/40.0 MiB  5 s left"),
        (37, LABEL, "...team/app:v1   50 %"),
        (5, LABEL, "...pp"),
        (1, "", " "),
    ],
)  # fmt: skip
def test_the_line_fits_and_shows_as_much_as_there_is_room_for(columns: int, label: str, line: str) -> None:
    shown = progress_line(HALF, 4.0 * MIB, columns, label)
    assert len(shown) <= columns
    assert shown == line


@pytest.mark.parametrize(
    ("done", "total", "per_second", "line"),
    [
        pytest.param(20 * MIB, 40 * MIB, None, "50 %  1/1 layers  20.0/40.0 MiB", id="no speed yet"),
        pytest.param(20 * MIB, 40 * MIB, 0.0, "50 %  1/1 layers  20.0/40.0 MiB", id="nothing moves"),
        pytest.param(20 * MIB, 40 * MIB, 40.0 * MIB, "20.0/40.0 MiB  40.0 MiB/s  1 s left", id="seconds"),
        pytest.param(MIB, 20 * MIB, 0.1 * MIB, "1.0/20.0 MiB  102.4 KiB/s  3 min left", id="minutes"),
        pytest.param(0, 20 << 30, 3.0 * MIB, "0.0/20.0 GiB  3.0 MiB/s  1 h 53 min left", id="hours"),
        pytest.param(MIB // 2, 40 * MIB, None, "0.5/40.0 MiB", id="the unit of the whole"),
        pytest.param(5, 5, 1.0, "] 100 %  1/1 layers  5/5 B  1 B/s", id="done"),
        pytest.param(0, 0, None, "##] 100 %  1/1 layers  0/0 B", id="nothing"),
    ],
)
def test_figures_are_for_people(done: int, total: int, per_second: float | None, line: str) -> None:
    progress = keyferry.Progress(done=done, total=total, layers_done=1, layers=1)
    assert progress_line(progress, per_second, 100).endswith(line)


def test_a_speed_is_known_after_a_second_and_follows_the_last_five() -> None:
    """However often the bytes are noted."""
    speed = Speed()
    known = [speed.per_second]
    for note in range(1101):
        speed.note(note / 1000, note)
        known.append(speed.per_second)
    assert known[:1000] == [None] * 1000
    assert known[-1] == pytest.approx(1000, rel=0.05)
    for second in range(2, 10):
        speed.note(float(second), 1100)
    assert speed.per_second == 0
