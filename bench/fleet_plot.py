"""Plots over time as SVG, in one style for light and dark; on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, log10
from typing import NamedTuple

_WIDTH, _PANEL_HEIGHT = 760, 220
_LEFT, _RIGHT, _TOP, _BETWEEN, _BOTTOM = 64, 32, 64, 58, 44
# What has no requests lies on the axis, a little below one.
_LEAST = 0.5
_STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.panel { font-weight: 600; }
.axis { stroke: #57606a; stroke-width: 1; fill: none; }
.grid { stroke: #d0d7de; stroke-width: 1; fill: none; }
.quota { stroke: #57606a; stroke-width: 1; stroke-dasharray: 2 4; fill: none; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.c0 { stroke: #b35900; } .c1 { stroke: #8250df; stroke-dasharray: 7 3; }
.c2 { stroke: #0a7d5a; stroke-dasharray: 3 2; } .c3 { stroke: #0550ae; }
.paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .axis, .quota { stroke: #9198a1; }
  .grid { stroke: #30363d; }
  .c0 { stroke: #ffa657; } .c1 { stroke: #d2a8ff; } .c2 { stroke: #56d4a4; } .c3 { stroke: #79c0ff; }
  .paper { fill: #0d1117; }
}
"""


class Line(NamedTuple):
    """A name, a style from 0 to 3, and the number in each bin of time."""

    name: str
    style: int
    values: Sequence[float]


class Panel(NamedTuple):
    """Lines over the same time: where it begins and ends, in units of the axis, and where its marks are."""

    title: str
    lines: Sequence[Line]
    start: float
    end: float
    marks: Sequence[float]
    unit: str


class Plot(NamedTuple):
    """A picture: what it shows, in words too, its panels from top to bottom, a line for the quota unless it is 0."""

    title: str
    description: str
    panels: Sequence[Panel]
    quota: int = 0


def bins(values: Sequence[int], number: int) -> list[int]:
    """Return the largest value of each of so many equal parts."""
    size = max(ceil(len(values) / number), 1)
    return [max(values[at : at + size]) for at in range(0, len(values), size)]


def draw(plot: Plot) -> str:
    """Return the picture as an SVG document."""
    height = _TOP + len(plot.panels) * (_PANEL_HEIGHT + _BETWEEN) - _BETWEEN + _BOTTOM
    most = max(max(line.values) for panel in plot.panels for line in panel.lines)
    decades = ceil(log10(max(most, plot.quota + 1, 10)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'aria-labelledby="title description">',
        f'<title id="title">{escape(plot.title)}</title>',
        f'<desc id="description">{escape(plot.description)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>',
        f'<text class="title" x="{_LEFT}" y="22">{escape(plot.title)}</text>',
        *_legend(plot),
    ]
    for number, panel in enumerate(plot.panels):
        top = _TOP + number * (_PANEL_HEIGHT + _BETWEEN)
        parts += _draw_panel(panel, top, decades, plot.quota)
    return "\n".join((*parts, "</svg>", ""))


def _legend(plot: Plot) -> list[str]:
    parts, x = [], float(_LEFT)
    names = {line.name: line.style for panel in plot.panels for line in panel.lines}
    for name, style in names.items():
        parts.append(f'<path class="line c{style}" d="M{x:.0f} 42h26"/>')
        parts.append(f'<text x="{x + 32:.0f}" y="46">{escape(name)}</text>')
        x += 32 + 6.6 * len(name) + 18
    return parts


def _short(number: float) -> str:
    return f"{number / 1e6:g} M" if number >= 1e6 else f"{number:,.10g}"


def _draw_panel(panel: Panel, top: int, decades: int, quota: int) -> list[str]:
    def y_of(value: float) -> float:
        share = (log10(max(value, _LEAST)) - log10(_LEAST)) / (decades - log10(_LEAST))
        return top + _PANEL_HEIGHT * (1 - share)

    def x_of(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (value - panel.start) / (panel.end - panel.start)

    right, bottom = _WIDTH - _RIGHT, top + _PANEL_HEIGHT
    parts = []
    for step in (10**decade for decade in range(decades + 1)):
        y = y_of(step)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(step)}</text>')
    for mark in panel.marks:
        x = x_of(mark)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{mark:g}{escape(panel.unit)}</text>'
        )
    parts.append(f'<path class="axis" d="M{_LEFT} {top}V{bottom}H{right}"/>')
    if quota:
        parts.append(f'<path class="quota" d="M{_LEFT} {y_of(quota):.1f}H{right}"/>')
        parts.append(f'<text x="{right + 4}" y="{y_of(quota) + 4:.1f}">{quota}/s</text>')
    for line in panel.lines:
        width = (panel.end - panel.start) / len(line.values)
        points = [
            f"{x_of(panel.start + (at + 0.5) * width):.1f} {y_of(value):.1f}"
            for at, value in enumerate(line.values)
        ]
        parts.append(f'<path class="line c{line.style}" d="M{"L".join(points)}"/>')
    parts.append(f'<text class="panel" x="{_LEFT + 8}" y="{top + 14}">{escape(panel.title)}</text>')
    return parts
