"""Pictures are well-formed and named, and show every line and every peak."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from bench.fleet_plot import Line, Panel, Plot, bins, draw
from hypothesis import given
from hypothesis import strategies as st

PANEL = Panel(
    "a <panel>", [Line("one & two", 0, [0, 1, 10]), Line("three", 3, [5, 100, 7])], 0, 3, [0, 1, 2, 3], " h"
)
PLOT = Plot("A plot", "What it shows", [PANEL, PANEL], 20)
SVG = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=200), st.integers(1, 50))
def test_bins_keep_the_peak(values: list[int], number: int) -> None:
    found = bins(values, number)
    assert max(found) == max(values)
    assert 1 <= len(found) <= number


def test_a_picture_is_well_formed_and_named() -> None:
    picture = ET.fromstring(draw(PLOT))
    assert [each.text for each in picture if each.tag in (f"{SVG}title", f"{SVG}desc")] == [
        "A plot",
        "What it shows",
    ]
    lines = [each for each in picture.iter(f"{SVG}path") if each.get("class", "").startswith("line")]
    # Two in the legend, two in each panel.
    assert len(lines) == 6
    assert "prefers-color-scheme: dark" in draw(PLOT)
