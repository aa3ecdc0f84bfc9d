"""The progress of a pull as a line of text."""

from __future__ import annotations

import pytest

from keyferry.cli.pull_progress import Speed, amount_text, progress_line, shortened, size_text
from keyferry.pulls.request import Progress

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


@pytest.mark.parametrize("columns", range(1, 200))
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
