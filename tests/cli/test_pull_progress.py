"""What is told of a pull meanwhile: lines that are redrawn, plain lines, and nothing if nobody wants it."""

from __future__ import annotations

import io

import pytest

from keyferry.cli.pull import kept_lines
from keyferry.cli.pull_progress import (
    ProgressReporter,
    Speed,
    amount_text,
    progress_line,
    shortened,
    size_text,
)
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


MIB = 1 << 20
HALF = Progress(done=20 * MIB, total=40 * MIB, layers_done=2, layers=5)
LABEL = "registry.example/team/app:v1"


@pytest.mark.parametrize(
    ("columns", "label", "line"),
    [
        (
            100,
            "",
            "[####################....................]  50 %  2/5 layers  20.0/40.0 MiB  4.0 MiB/s  5 s left",
        ),
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
    ],
)  # fmt: skip
def test_the_line_fits_and_shows_as_much_as_there_is_room_for(columns: int, label: str, line: str) -> None:
    shown = progress_line(HALF, 4.0 * MIB, columns, label)
    assert len(shown) <= columns
    assert shown == line


@pytest.mark.parametrize("columns", [1, 7, 20, 80, 199])
def test_no_width_is_too_small(columns: int) -> None:
    for label in ("", LABEL):
        assert (
            len(
                progress_line(
                    Progress(done=123 << 30, total=456 << 30, layers_done=99, layers=100), 1.0, columns, label
                )
            )
            <= columns
        )


def test_no_time_is_claimed_before_a_speed_is_known_or_when_nothing_moves() -> None:
    for speed in (None, 0.0):
        assert progress_line(HALF, speed, 100).endswith(" 50 %  2/5 layers  20.0/40.0 MiB")


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (20.0 * MIB, "1 s left"),
        (40.0 * MIB, "1 s left"),
        (0.1 * MIB, "3 min left"),
        (0.003 * MIB, "1 h 51 min left"),
    ],
)
def test_the_time_left_is_for_people(per_second: float, text: str) -> None:
    assert progress_line(HALF, per_second, 100).endswith(f"/s  {text}")


def test_what_is_done_has_no_time_left() -> None:
    assert progress_line(Progress(done=5, total=5, layers_done=1, layers=1), 1.0, 79).endswith(
        "] 100 %  1/1 layers  5/5 B  1 B/s"
    )
    assert progress_line(Progress(done=0, total=0), None, 79).endswith("##] 100 %  0/0 layers  0/0 B")


def test_a_speed_is_known_after_a_second_and_follows_the_last_five() -> None:
    speed = Speed()
    known = [speed.per_second]
    for tenth in range(11):
        speed.note(tenth / 10, tenth * 100)
        known.append(speed.per_second)
    assert known == [*[None] * 11, 1000]
    for second in range(2, 10):
        speed.note(float(second), 1000)
    assert speed.per_second == 0


def test_many_notes_in_a_moment_are_one_sample() -> None:
    speed = Speed()
    for note in range(10_000):
        speed.note(note / 5000, note)
    assert len(speed._samples) < 50
    assert speed.per_second == pytest.approx(5000, rel=0.05)


def test_discarded_bytes_make_no_negative_speed() -> None:
    speed = Speed()
    speed.note(0.0, 5000)
    known = []
    for now, done in ((2.0, 100), (3.0, 200)):
        speed.note(now, done)
        known.append(speed.per_second)
    assert known == [None, 100]


def test_a_long_name_keeps_its_end() -> None:
    assert shortened(LABEL, 28) == LABEL
    assert shortened(LABEL, 12) == "...am/app:v1"


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 B"), (2048, "2.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_part_has_the_unit_of_the_whole() -> None:
    assert amount_text(MIB // 2, 40 * MIB) == "0.5/40.0 MiB"
    assert amount_text(3, 7, " of ") == "3 of 7 B"
