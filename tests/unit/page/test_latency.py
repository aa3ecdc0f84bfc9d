"""The histogram of run times."""

from __future__ import annotations

import pytest

from keyferry.page.charts import draw_latency
from keyferry.page.model import LatencyBucket

BUCKETS = (
    LatencyBucket(up_to_seconds=0.1, runs=0),
    LatencyBucket(up_to_seconds=0.5, runs=30),
    LatencyBucket(up_to_seconds=2.5, runs=9),
    LatencyBucket(up_to_seconds=None, runs=1),
)


def test_without_runs_there_is_no_picture() -> None:
    assert draw_latency(()) is None
    assert draw_latency((LatencyBucket(up_to_seconds=1, runs=0),)) is None


def test_bars_fill_the_width_and_the_highest_fills_the_height() -> None:
    picture = draw_latency(BUCKETS)
    assert picture is not None
    assert [each.height for each in picture.bars] == [0, 100, 30, 4]
    assert [each.left for each in picture.bars] == [1, 26, 51, 76]
    assert {each.width for each in picture.bars} == {23}
    assert picture.bars[0].middle == 12.5


def test_the_picture_is_told_in_words() -> None:
    picture = draw_latency(BUCKETS)
    assert picture is not None
    assert [each.label for each in picture.bars] == [
        "up to 100 ms",
        "up to 500 ms",
        "up to 2.5 s",
        "over 2.5 s",
    ]
    assert [each.short for each in picture.bars] == ["100 ms", "500 ms", "2.5 s", ">2.5 s"]
    assert picture.summary == "half within 500 ms, 95 % within 2.5 s"
    assert picture.description == "Duration of 40 runs: 30 up to 500 ms, 9 up to 2.5 s, 1 over 2.5 s"


def test_one_limit_is_named_once() -> None:
    picture = draw_latency((LatencyBucket(up_to_seconds=0.1, runs=1),))
    assert picture is not None
    assert picture.summary == "95 % within 100 ms"


@pytest.mark.parametrize(
    ("runs", "summary"),
    [
        ((9, 1), "half within 100 ms, the slowest over 100 ms"),
        ((1, 9), "most runs took over 100 ms"),
    ],
)
def test_runs_beyond_the_last_limit_are_not_said_to_stay_within_one(
    runs: tuple[int, int], summary: str
) -> None:
    picture = draw_latency(
        (LatencyBucket(up_to_seconds=0.1, runs=runs[0]), LatencyBucket(up_to_seconds=None, runs=runs[1]))
    )
    assert picture is not None
    assert picture.summary == summary
