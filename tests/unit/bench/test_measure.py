"""Figures carry their spread, ratios are taken round by round, and rows say whether their bar holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest
from bench.measure import Figure, Row, best, median, quickest_tenth, skipped, spread, take_turns

ROUNDS = [[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]]


@pytest.mark.parametrize(
    ("statistic", "value", "by_round"),
    [(best, 1.0, (1.0, 4.0)), (median, 3.5, (2.0, 5.0))],
    ids=["best", "median"],
)
def test_a_figure_is_of_all_rounds_and_knows_each(
    statistic: Callable[[list[list[float]]], Figure], value: float, by_round: tuple[float, ...]
) -> None:
    figure = statistic(ROUNDS)
    assert figure == value
    assert figure.rounds == by_round


def test_the_quickest_tenth_of_single_figures_is_over_all_rounds() -> None:
    figure = quickest_tenth([[float(number)] for number in range(1, 100)])
    assert figure == 10.0
    assert figure.rounds[:3] == (1.0, 2.0, 3.0)


def test_few_rounds_are_spread_from_the_least_to_the_most() -> None:
    assert spread([5.0, 1.0, 3.0]) == (1.0, 5.0)


def test_of_many_rounds_the_outer_tenths_are_left_out() -> None:
    assert spread([float(number) for number in range(1, 100)]) == (10.0, 90.0)


def test_one_round_has_no_spread() -> None:
    assert spread([1.0]) is None
    assert Row("what", 2.0).spread is None


def test_a_ratio_is_spread_round_by_round() -> None:
    """A slow spell of the machine hits both, and is not in their ratio."""
    row = Row("what", Figure(2.0, (2.0, 20.0, 6.0)), "µs", Figure(1.0, (1.0, 10.0, 2.0)), "floor")
    assert row.ratio == 2.0
    assert row.spread == (2.0, 20.0)
    assert row.ratio_spread == (2.0, 3.0)


def test_a_ratio_against_a_fixed_number_has_the_spread_of_the_figure() -> None:
    assert Row("what", Figure(2.0, (2.0, 4.0)), "µs", 4.0).ratio_spread == (0.5, 1.0)


@pytest.mark.parametrize(
    ("figure", "value", "rounds"),
    [
        (Figure(5.0, (5.0, 7.0)) - Figure(1.0, (1.0, 2.0)), 4.0, (4.0, 5.0)),
        (Figure(5.0, (5.0, 7.0)) - 1, 4.0, (4.0, 6.0)),
        (Figure(5.0, (5.0, 7.0)) * 2, 10.0, (10.0, 14.0)),
        (2 * Figure(5.0, (5.0, 7.0)), 10.0, (10.0, 14.0)),
        (Figure(5.0, (5.0, 7.0)) / 2, 2.5, (2.5, 3.5)),
        (Figure(5.0, (5.0, 7.0)) - Figure(1.0, (1.0,)), 4.0, ()),
    ],
    ids=["minus a figure", "minus a number", "times", "times, turned", "by a number", "other rounds"],
)
def test_arithmetic_keeps_the_rounds(figure: Figure, value: float, rounds: tuple[float, ...]) -> None:
    assert figure == value
    assert figure.rounds == rounds


@pytest.mark.parametrize(
    ("row", "bar", "holds"),
    [
        (Row("what", 2.0, "µs", 3.0), "3 µs", True),
        (Row("what", 4.0, "µs", 3.0), "3 µs", False),
        (Row("what", 4.0, "µs", 2.0, "C floor", 1.5), "1.5 x", False),
        (Row("what", 3.0, "µs", 2.0, "C floor", 1.5), "1.5 x", True),
        (Row("what", 4.0, "µs", 2.0, "C floor"), "", None),
        (Row("what", 4.0, "µs"), "", None),
        (skipped("what", "no compiler"), "", None),
    ],
    ids=["kept", "missed", "ratio missed", "ratio kept", "no bar", "nothing to compare", "skipped"],
)
def test_a_row_says_its_bar_and_whether_it_holds(row: Row, bar: str, holds: bool | None) -> None:
    assert row.bar == bar
    assert row.holds is holds


def test_a_row_as_a_document_has_what_it_computes() -> None:
    row = Row("what", Figure(2.0, (2.0, 4.0)), "µs", Figure(4.0, (4.0, 4.0)), "floor", 0.4)
    document = json.loads(json.dumps(row.to_document("cold")))
    assert document["group"] == "cold"
    assert document["measured"] == 2.0
    assert document["spread"] == [2.0, 4.0]
    assert document["ratio"] == 0.5
    assert document["ratio_spread"] == [0.5, 1.0]
    assert document["holds"] is False


def test_contestants_take_turns_and_every_other_round_goes_backwards() -> None:
    order: list[str] = []

    def contestant(name: str) -> list[float]:
        order.append(name)
        return [1.0]

    results = take_turns({name: partial(contestant, name) for name in "ab"}, 4)
    assert "".join(order) == "baabbaab"
    assert results == {"a": 4 * [[1.0]], "b": 4 * [[1.0]]}


def test_rounds_can_be_limited_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYFERRY_BENCH_ROUNDS", "3")
    assert len(take_turns({"a": lambda: [1.0]}, 40)["a"]) == 3
    assert len(take_turns({"a": lambda: [1.0]}, 2)["a"]) == 2
