"""The timeline of lives: where bars, ticks and the present are."""

from __future__ import annotations

import math

import pytest

from keyferry._core.values import replace
from keyferry.page.charts import SPANS, draw_density, draw_life, make_axis
from keyferry.page.model import Life

NOW = 1_790_000_000.0  # 14:13:20 UTC
HOUR = 3600
LIFE = Life(
    identifier=7,
    provider="ecr",
    scope="reg.example",
    account="",
    got=NOW - 2 * HOUR,
    expires=NOW + 6 * HOUR,
    refresh_from=NOW + 2 * HOUR,
    refresh_until=NOW + 5 * HOUR,
    refresh_at=NOW + 3 * HOUR,
    failures=0,
    credentials=1,
)


def test_an_axis_that_fits_has_round_ends_and_ticks() -> None:
    axis = make_axis([LIFE], NOW)
    assert (axis.start % (2 * HOUR), axis.end % (2 * HOUR)) == (0, 0)
    assert axis.start <= LIFE.got
    assert axis.end >= LIFE.expires
    assert [each.label for each in axis.ticks] == ["12:00", "14:00", "16:00", "18:00", "20:00", "22:00"]
    assert [each.at for each in axis.ticks] == [0, 20, 40, 60, 80, 100]


def test_the_past_takes_a_third_at_most_unless_the_whole_life_is_asked_for() -> None:
    old = replace(LIFE, got=NOW - 18 * HOUR)
    axis, whole = make_axis([old], NOW), make_axis([old], NOW, is_whole=True)
    assert NOW - 5 * HOUR <= axis.start <= NOW - 3 * HOUR
    assert draw_life(old, axis).is_cut_left
    assert not draw_life(old, whole).is_cut_left


def test_a_day_has_its_date_on_the_axis() -> None:
    labels = [each for each in make_axis([], NOW, "24h").ticks if each.is_day]
    assert [each.label for each in labels] == ["Sep 22"]


@pytest.mark.parametrize("span", [each for each in SPANS if each])
def test_an_axis_of_a_given_length_has_a_quarter_in_the_past(span: str) -> None:
    axis = make_axis([LIFE], NOW, span)
    assert SPANS[span] <= axis.end - axis.start <= SPANS[span] * 1.1
    assert 24 <= axis.now_at <= 28
    assert 2 <= len(axis.ticks) <= 9


def test_an_unknown_length_fits() -> None:
    assert make_axis([LIFE], NOW, "<b>") == make_axis([LIFE], NOW)


def test_an_axis_without_lives_and_one_with_endless_lives_are_finite() -> None:
    endless = replace(LIFE, got=0.0, expires=math.inf)
    for lives in ([], [endless]):
        axis = make_axis(lives, NOW)
        assert NOW - 24 * HOUR < axis.start < NOW < axis.end < NOW + 48 * HOUR


def test_the_picture_is_the_same_a_second_later() -> None:
    """So that a page that is kept up to date is not sent again each second."""
    same = [make_axis([LIFE], NOW + second) == make_axis([LIFE], NOW) for second in range(60)]
    assert sum(same) > 30


def test_a_bar_has_its_life_its_window_and_its_plan() -> None:
    axis = make_axis([LIFE], NOW)
    bar = draw_life(LIFE, axis)
    assert (bar.left, bar.width) == (axis.at(LIFE.got), 80)
    assert (bar.window_left, bar.window_width) == (axis.at(NOW + 2 * HOUR), 30)
    assert bar.planned == axis.at(NOW + 3 * HOUR)
    assert not bar.is_cut_left
    assert not bar.is_cut_right
    assert bar.description == (
        "Got 2026-09-21 12:13:20 UTC, may be renewed from 2026-09-21 16:13:20 UTC to 2026-09-21 19:13:20 UTC, "
        "renewal planned 2026-09-21 17:13:20 UTC, ends 2026-09-21 20:13:20 UTC"
    )


def test_an_answer_that_is_not_renewed_has_neither_window_nor_plan() -> None:
    plain = replace(LIFE, refresh_from=None, refresh_until=None, refresh_at=None)
    bar = draw_life(plain, make_axis([plain], NOW))
    assert (bar.window_left, bar.window_width, bar.planned) == (None, 0, None)
    assert "no renewal is planned" in bar.description


def test_a_bar_beyond_the_axis_is_cut_and_stays_visible() -> None:
    axis = make_axis([], NOW, "15m")
    bar = draw_life(LIFE, axis)
    assert (bar.left, bar.width, bar.is_cut_left, bar.is_cut_right) == (0, 100, True, True)
    assert bar.planned is None
    gone = replace(LIFE, got=NOW - 9 * HOUR, expires=NOW - 8 * HOUR)
    assert draw_life(gone, axis).width == 0.4


def test_density_counts_renewals_and_ends() -> None:
    unplanned = replace(LIFE, refresh_at=None)
    axis = make_axis([LIFE], NOW)
    columns = draw_density([LIFE, LIFE, unplanned], axis)
    assert [(each.renewed, each.ended) for each in columns] == [(2, 0), (0, 1)]
    assert [(each.renewed_height, each.ended_height) for each in columns] == [(100, 0), (0, 50)]
    assert columns[0].left < columns[1].left


def test_density_of_nothing_is_empty() -> None:
    assert draw_density([], make_axis([], NOW)) == ()
    assert draw_density([replace(LIFE, refresh_at=None, expires=math.inf)], make_axis([], NOW)) == ()
