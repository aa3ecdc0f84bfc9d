"""Pictures are well-formed, the same for the same values, and show every line."""

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


def test_points_are_inside_the_picture() -> None:
    """Zero too, which has no logarithm."""
    picture = ET.fromstring(draw(PLOT))
    _, _, width, height = map(float, str(picture.get("viewBox")).split())
    for path in picture.iter(f"{SVG}path"):
        points = str(path.get("d"))
        if "L" in points:
            for point in points.removeprefix("M").split("L"):
                x, y = map(float, point.split())
                assert 0 <= x <= width
                assert 0 <= y <= height


def test_the_quota_is_inside_its_panel() -> None:
    """Also where nobody comes near it."""
    quiet = Plot("A plot", "What it shows", [Panel("quiet", [Line("one", 0, [1, 2])], 0, 2, [0], "")], 500)
    [quota] = [each for each in ET.fromstring(draw(quiet)).iter(f"{SVG}path") if each.get("class") == "quota"]
    assert 64 < float(str(quota.get("d")).split()[1].partition("H")[0]) < 284


def test_the_same_values_give_the_same_bytes() -> None:
    assert draw(PLOT) == draw(PLOT)
