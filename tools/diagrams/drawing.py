"""Boxes, arrows, zones, bars and texts of a picture, and the picture as an SVG for light and dark backgrounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Mapping

# A picture has its own background, so that it is readable on a page of either colour.
_STYLE = """\
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
  .h { font-weight: bold; font-size: 14px }
  .s { font-size: 12px; fill: #57606a }
  .m { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #0b5d75 }
  .p { fill: #ffffff; stroke: #d0d7de }
  .x { fill: #f6f8fa; stroke: #8c959f }
  .good { fill: #dafbe1; stroke: #1a7f37 }
  .care { fill: #fff8c5; stroke: #9a6700 }
  .bad { fill: #ffebe9; stroke: #cf222e }
  .z { fill: none; stroke: #8c959f; stroke-dasharray: 5 4 }
  .l { stroke: #656d76 }
  .a { fill: #656d76 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .s { fill: #9ea7b3 }
    .m { fill: #76e3ea }
    .p { fill: #0d1117; stroke: #30363d }
    .x { fill: #161b22; stroke: #6e7681 }
    .good { fill: #12261e; stroke: #3fb950 }
    .care { fill: #272115; stroke: #d29922 }
    .bad { fill: #2d1517; stroke: #f85149 }
    .z { stroke: #6e7681 }
    .l { stroke: #8d96a0 }
    .a { fill: #8d96a0 }
  }
"""
_HEADING_AT, _LINES_AT, _LINE_HEIGHT = 26, 48, 18


class Box(NamedTuple):
    """A part of a picture: its place, its heading, what happens there, and the command or word for it.

    *kind* is ``x`` for a plain box, or ``good``, ``care`` or ``bad``.
    """

    x: int
    y: int
    width: int
    height: int
    heading: str
    lines: tuple[str, ...] = ()
    command: str = ""
    kind: str = "x"


class Arrow(NamedTuple):
    """An arrow between two boxes, named by their keys, with a text beside it.

    It is horizontal, at the middle of the first box, if the second box is to the right or left of it; else vertical.
    """

    start: str
    end: str
    label: str = ""


class Zone(NamedTuple):
    """A dashed frame around boxes that belong together, with its name above them."""

    x: int
    y: int
    width: int
    height: int
    name: str


class Bar(NamedTuple):
    """A span of time: its place, and a part of it, in hundredths, that has a meaning of its own."""

    x: int
    y: int
    width: int
    first: int
    last: int


class Text(NamedTuple):
    """A text outside of boxes; *kind* is a style, ``m`` for a command and ``s`` for small."""

    x: int
    y: int
    text: str
    kind: str = ""


class Picture(NamedTuple):
    """A picture: the name of its file, what it shows in one sentence, its size, and its parts."""

    file: str
    title: str
    width: int
    height: int
    boxes: Mapping[str, Box]
    arrows: tuple[Arrow, ...] = ()
    zones: tuple[Zone, ...] = ()
    bars: tuple[Bar, ...] = ()
    texts: tuple[Text, ...] = ()


def draw(picture: Picture) -> str:
    """Return the picture as an SVG that follows the reader's choice of light or dark."""
    width, height, boxes = picture.width, picture.height, picture.boxes
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-labelledby="t">\n',
        f'<title id="t">{escape(picture.title)}</title>\n<style>\n{_STYLE}</style>\n',
        f'<rect class="p" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>\n',
        *(_zone(zone) for zone in picture.zones),
        *(_box(box) for box in boxes.values()),
        *(_arrow(boxes[arrow.start], boxes[arrow.end], arrow.label) for arrow in picture.arrows),
        *(_bar(bar) for bar in picture.bars),
        *(_text(*text) for text in picture.texts),
        "</svg>\n",
    ]
    return "".join(parts)


def _box(box: Box) -> str:
    rows = [_text(box.x + 12, box.y + _HEADING_AT, box.heading, "h")]
    rows += [
        _text(box.x + 12, box.y + _LINES_AT + _LINE_HEIGHT * at, line)
        for at, line in enumerate(box.lines)
        if line
    ]
    if box.command:
        rows.append(_text(box.x + 12, box.y + box.height - 11, box.command, "m"))
    frame = f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"/>\n'
    return frame + "".join(rows)


def _arrow(start: Box, end: Box, label: str) -> str:
    if end.x >= start.x + start.width:
        return _right_arrow(start, end, label)
    x = start.x + start.width // 2
    top, bottom = start.y + start.height + 3, end.y - 4
    line = f'<path class="l" d="M{x} {top} V{bottom - 7}"/><path class="a" d="M{x} {bottom} l-4 -8 h8 z"/>\n'
    return line + (_text(x + 10, (top + bottom) // 2 + 4, label, "s") if label else "")


def _right_arrow(start: Box, end: Box, label: str) -> str:
    y = start.y + start.height // 2
    left, right = start.x + start.width + 3, end.x - 4
    line = f'<path class="l" d="M{left} {y} H{right - 7}"/><path class="a" d="M{right} {y} l-8 -4 v8 z"/>\n'
    return line + (_text(left + 18, y - 7, label, "s") if label else "")


def _zone(zone: Zone) -> str:
    frame = (
        f'<rect class="z" x="{zone.x}" y="{zone.y}" width="{zone.width}" height="{zone.height}" rx="8"/>\n'
    )
    return frame + _text(zone.x + 10, zone.y + 19, zone.name, "s")


def _bar(bar: Bar) -> str:
    left = bar.x + bar.width * bar.first // 100
    width = bar.width * (bar.last - bar.first) // 100
    return (
        f'<rect class="x" x="{bar.x}" y="{bar.y}" width="{bar.width}" height="22" rx="4"/>\n'
        f'<rect class="good" x="{left}" y="{bar.y}" width="{width}" height="22"/>\n'
    )


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{named}>{escape(text)}</text>\n'
