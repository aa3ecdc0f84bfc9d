"""Rows of two commits stand side by side by their names, and what only one has is named."""

from __future__ import annotations

import json

from bench.compare import Comparison, cells, compare, failure_of


def row(side: str, what: str, measured: float | None, group: str = "cold") -> dict[str, object]:
    return {"side": side, "group": group, "what": what, "unit": "µs", "measured": measured, "note": "why"}


def test_runs_are_put_together_by_group_and_name() -> None:
    rows = [row("after", "x", 2.0), row("before", "x", 4.0), row("before", "x", 8.0), row("after", "x", 6.0)]
    compared, alone = compare([*rows, row("before", "x", 1.0, "warm"), row("after", "x", 1.0, "warm")])
    assert compared == [
        Comparison("cold: x", "µs", [4.0, 8.0], [2.0, 6.0]),
        Comparison("warm: x", "µs", [1.0], [1.0]),
    ]
    assert alone == []


def test_the_ratio_is_of_the_best_runs_and_its_spread_of_runs_that_belong_together() -> None:
    compared = Comparison("cold: x", "µs", [4.0, 8.0], [2.0, 6.0])
    assert compared.ratio == 0.5
    assert compared.ratios == [0.5, 0.75]
    assert cells(compared) == ("cold: x", "4 µs", "4 to 8", "2 µs", "2 to 6", "0.50", "0.5 to 0.75")


def test_rows_of_one_side_are_named_and_so_are_those_that_nobody_could_measure() -> None:
    rows = [
        row("before", "old", 1.0),
        row("after", "new", 1.0),
        row("before", "peer", None),
        row("after", "peer", None),
    ]
    compared, alone = compare(rows)
    assert compared == []
    assert alone == ["only before: cold: old", "only after: cold: new", "on neither side: cold: peer"]


def test_nothing_is_divided_by_zero() -> None:
    compared, alone = compare([row("before", "left over", 0.0), row("after", "left over", 1.0)])
    assert compared == []
    assert alone == ["no ratio, since before is not above zero: cold: left over"]


def test_a_failed_run_gives_its_reason() -> None:
    document = json.dumps({"rows": [row("", "x", 1.0), row("", "the group cold", None)]})
    assert failure_of(document, "noise") == "why"
    assert failure_of("", "Traceback\nImportError: gone\n") == "ImportError: gone"
    assert failure_of("", "") == "it says nothing"
