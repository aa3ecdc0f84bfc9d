"""Tables and pictures of the page are what the simulation gives."""

from __future__ import annotations

import re
from array import array
from xml.etree import ElementTree as ET

import pytest
from bench.fleet import (
    PAGE,
    PICTURES,
    SIZES,
    Record,
    Scenario,
    boot_scenarios,
    demand_scenarios,
    figures,
    plots,
    rollout_scenarios,
    scenarios,
    simulate,
    tables,
)
from bench.sections import marks

SMALL_FLEET = 1_000


def record(asked: list[int], throttled: list[int]) -> Record:
    return Record(array("I", asked), array("I", throttled), array("I", throttled), 1.0)


def test_figures_are_those_of_the_window() -> None:
    """The 99th percentile is over all its seconds, those without requests too."""
    found = figures(record([100, *[0] * 98, 7, 50, 1000], [0] * 100 + [25, 1000]), 0, 101)
    assert (found.requests, found.peak, found.p99) == (157, 100, 50)
    assert found.throttled == pytest.approx(25 / 157)
    assert found.failed_pulls == 25
    assert figures(record([0, 0], [0, 0]), 0, 2).throttled == 0


def test_the_tables_have_a_row_for_every_scenario() -> None:
    todo = scenarios((5,))
    records = dict(zip(todo, map(simulate, todo), strict=True))
    rows = [line for line in tables(records, (5,)).splitlines() if line.startswith("| 5 |")]
    assert len(rows) == 8 + 4 + 3


def rows_of(text: str, who: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"| {SMALL_FLEET:,} | {who}")]


def test_the_page_is_what_a_run_gives() -> None:
    """For the smallest fleet and keyferry; the others take minutes."""
    mine: list[Scenario] = [
        *(each for each in boot_scenarios(SMALL_FLEET) if each.rule == "keyferry"),
        *(each for each in demand_scenarios(SMALL_FLEET) if each.rule == "keyferry"),
        *(each for each in rollout_scenarios(SMALL_FLEET) if each.rule == "keyferry"),
    ]
    known = dict(zip(mine, map(simulate, mine), strict=True))
    nothing = record([1] * 200_000, [0] * 200_000)
    records = {each: known.get(each, nothing) for each in scenarios((SMALL_FLEET,))}
    found = rows_of(tables(records, (SMALL_FLEET,)), "keyferry")
    assert len(found) == 4 + 1 + 2
    assert rows_of(PAGE.read_text(encoding="utf-8"), "keyferry") == found


@pytest.mark.parametrize("who", ["80 % of the life", "half of the life", "keyferry"])
def test_peaks_that_the_page_explains_are_those_of_its_tables(who: str) -> None:
    """They are quoted beside what arithmetic expects."""
    page = PAGE.read_text(encoding="utf-8")
    generated, _, text = page.partition(marks("fleet")[1])
    day = generated.partition("### A day of renewals")[2]
    for nodes, column in (("10,000", 3), ("100,000", 6)):
        (row,) = re.findall(rf"^\| {nodes} \| {who} \| ([0-9,]+) ", day, re.MULTILINE)
        (explained,) = re.findall(rf"^\| {who} \|(?:[^|]*\|){{{column}}} ([0-9,]+)/s \|", text, re.MULTILINE)
        assert explained == row
        assert re.search(
            rf"\b{row}\b", page.partition("\n## A fleet")[2].partition("### What is simulated")[0]
        )


def test_the_pictures_are_on_the_page_and_show_what_is_drawn_now() -> None:
    """Their titles, panels and lines; the whole run, which takes minutes, gives the same bytes."""
    nothing = record([0] * 200_000, [0] * 200_000)
    drawn = plots(dict.fromkeys(scenarios(SIZES[-1:]), nothing), SIZES[-1])
    assert {path.stem for path in PICTURES.glob("fleet-*")} == set(drawn)
    for name, plot in drawn.items():
        texts = set(ET.parse(PICTURES / f"{name}.svg").getroot().itertext())
        wanted = {plot.title, plot.description}
        for panel in plot.panels:
            wanted |= {panel.title, *(line.name for line in panel.lines)}
        assert wanted <= texts, name
        assert f"](pictures/{name}.svg)" in PAGE.read_text(encoding="utf-8")
