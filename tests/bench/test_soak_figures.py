"""The arithmetic of the soak: growth, what makes it fail, and the page that it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench.report import Machine
from bench.sections import marks
from bench.soak import (
    Count,
    Growth,
    Result,
    Sample,
    growth_of,
    growth_table,
    judge,
    slope,
    write_result,
)

FIRST = Sample(0.0, 50.0, 60.0, 100_000, 50, 20, 8, 3, 30.0, 40.0, 7, 0, 0, 0)
HOUR = 3600.0
MACHINE = Machine("2026-11-16", "CPU", 2, "a virtual machine", "Linux", "3.11", "", "0.1")


def samples(*memory: float) -> list[Sample]:
    """One sample a minute."""
    return [replace(FIRST, at=60.0 * number, memory_mb=each) for number, each in enumerate(memory)]


def test_a_slope_is_that_of_the_line() -> None:
    assert slope([0, 1, 2, 3], [5, 7, 9, 11]) == pytest.approx(2)
    assert slope([0, 1, 2, 3], [5, 5, 5, 5]) == 0
    assert slope([1], [5]) == 0


def test_the_warm_up_does_not_count() -> None:
    found = growth_of("memory_mb", samples(*range(20), *[20.0] * 41))
    assert (found.first, found.last, found.an_hour) == (20.0, 20.0, 0.0)
    assert found.holds


def test_a_leak_is_found_under_what_is_in_use_for_a_moment() -> None:
    """Peaks of every height do not hide it, and are none."""
    peaks = [500.0 * (number % 3 == 1) for number in range(181)]
    assert growth_of("memory_mb", samples(*(50 + peak for peak in peaks))).in_run == pytest.approx(0)
    leak = growth_of("memory_mb", samples(*(50 + number / 6 + peak for number, peak in enumerate(peaks))))
    assert leak.an_hour == pytest.approx(10, rel=0.05)
    assert leak.most > 500
    assert not leak.holds


def test_memory_blocks_of_cached_answers_are_no_growth() -> None:
    """Their number goes up and down; a leak of 1,000 a minute is seen beside it."""
    answers = [1_000 * (number % 15) for number in range(61)]

    def blocks(a_minute: float) -> list[Sample]:
        return [
            replace(
                FIRST, at=60.0 * number, answers=each, blocks=int(300_000 + 20 * each + a_minute * number)
            )
            for number, each in enumerate(answers)
        ]

    steady, leak = growth_of("blocks", blocks(0)), growth_of("blocks", blocks(1_000))
    assert steady.an_hour == pytest.approx(0, abs=1e-3)
    assert steady.holds
    assert leak.an_hour == pytest.approx(60_000)
    assert not leak.holds


def test_every_reason_to_fail_is_named() -> None:
    counts = {"lookups": Count(1, 5), "pulls": Count(3, 3, 0, 2, ["KeyError: x"]), "reloads": Count()}
    growths = [Growth("memory_mb", 1.0, 20.0, 20.0, 19.0, 19.0, 8.0)]
    assert judge(HOUR, counts, growths, ["2 descriptors are left"]) == [
        "2 descriptors are left",
        "pulls: 2 unexpected errors, such as KeyError: x",
        "reloads: not one step was finished",
        "memory of the host process (PSS): grew by 19.0 MB after the warm-up, bound 8.0",
    ]
    assert judge(60.0, {"lookups": Count(1, 5)}, growths, []) == []


@pytest.mark.parametrize(("seconds", "bound"), [(HOUR, "+6.7 MB"), (60.0, "not judged")])
def test_the_growth_is_beside_its_bound(seconds: float, bound: str) -> None:
    """Both are for the whole run after the warm-up; a rate beside them would be read as one of them."""
    growths = [Growth("memory_mb", 96.4, 100.3, 100.4, 6.8, 4.5, 6.7)]
    head, row = growth_table(Result(seconds, MACHINE, {}, [], growths, [], []))
    assert head[-2:] == ("growth in the run", "bound for the run")
    assert row == ("memory of the host process (PSS)", "96.4 MB", "100.3 MB", "100.4 MB", "+4.5 MB", bound)


@pytest.mark.parametrize("seconds", [300.0, HOUR - 1])
def test_a_run_of_less_than_an_hour_leaves_the_docs_as_they_are(seconds: float, tmp_path: Path) -> None:
    docs, folder = tmp_path / "docs", tmp_path / "folder"
    docs.mkdir()
    folder.mkdir()
    page = docs / "figures.md"
    begin, end = marks("soak")
    page.write_text(f"{begin}\nof an hour\n{end}\n", "utf-8")
    result = Result(seconds, MACHINE, {}, samples(50, 50), [], [], [])
    assert write_result(result, docs, folder) == folder / "soak.md"
    assert page.read_text("utf-8") == f"{begin}\nof an hour\n{end}\n"
    assert [each.name for each in docs.iterdir()] == ["figures.md"]
    assert write_result(replace(result, seconds=HOUR), docs, folder) == page
    assert "It ran for 60 minutes." in page.read_text("utf-8")
