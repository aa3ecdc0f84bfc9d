"""Draw docs/pictures/diagram.svg: how the kubelet finds the credentials for an image, and the command for each part.

usage: diagram.py [--check]   with --check, say if the picture is out of date and exit 1
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "diagram.svg"
TITLE = (
    "How the kubelet finds credentials: pull secrets, the node's docker config and providers give keys;"
    " those that match the image are tried in order at the registry"
)
_WIDTH, _HEIGHT = 1000, 400
_STYLE = """\
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
  .h { font-weight: bold; font-size: 14px }
  .m { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #0b5d75 }
  .p { fill: #ffffff; stroke: #d0d7de }
  .x { fill: #f6f8fa; stroke: #8c959f }
  .l { stroke: #656d76 }
  .a { fill: #656d76 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .m { fill: #76e3ea }
    .p { fill: #0d1117; stroke: #30363d }
    .x { fill: #161b22; stroke: #6e7681 }
    .l { stroke: #8d96a0 }
    .a { fill: #8d96a0 }
  }
"""


class Box(NamedTuple):
    """A part of the way: its place, its heading, what happens there, and the command that shows it."""

    x: int
    y: int
    width: int
    height: int
    heading: str
    lines: tuple[str, ...]
    command: str = ""


BOXES = {
    "secrets": Box(20, 20, 205, 100, "1  Pull secrets", ("that the pod lists,", "of its own namespace")),
    "docker": Box(
        20,
        134,
        205,
        100,
        "2  Node's docker config",
        ("config.json of the kubelet,", "reread every 5 minutes"),
    ),
    "providers": Box(
        20,
        248,
        205,
        100,
        "3  Providers",
        ("of the node's config, by", "the patterns in matchImages"),
        "lint, diff",
    ),
    "plugin": Box(
        255,
        248,
        185,
        100,
        "Plugin",
        ("runs on a match, unless", "its answer is cached"),
        "plugin test, trace",
    ),
    "keys": Box(
        470,
        20,
        155,
        328,
        "Keys",
        (
            "A key is a host and",
            "perhaps a path.",
            "",
            "Those that match the",
            "image are used; its",
            "tag and digest do",
            "not count.",
        ),
        "explain -o wide",
    ),
    "order": Box(
        655,
        20,
        150,
        328,
        "Order",
        (
            "1, then 2, then 3.",
            "",
            "Within each: keys in",
            "descending byte",
            "order, not the most",
            "specific first.",
        ),
        "get",
    ),
    "registry": Box(
        835,
        20,
        145,
        328,
        "Registry",
        (
            "One pull for each",
            "credential, until",
            "one works.",
            "",
            "With none: one",
            "anonymous pull. Its",
            "refusal becomes",
            "the pod's event.",
        ),
        "can-pull, pull",
    ),
}
# The y of an arrow is that of the middle of the box it comes from.
ARROWS = (
    ("secrets", "keys"),
    ("docker", "keys"),
    ("providers", "plugin"),
    ("plugin", "keys"),
    ("keys", "order"),
    ("order", "registry"),
)


def picture() -> str:
    """Return the diagram as an SVG that follows the reader's choice of light or dark."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
        f' height="{_HEIGHT}" role="img" aria-labelledby="t">\n',
        f'<title id="t">{escape(TITLE)}</title>\n<style>\n{_STYLE}</style>\n',
        f'<rect class="p" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="10"/>\n',
        *(_box(box) for box in BOXES.values()),
        *(_arrow(BOXES[start], BOXES[end]) for start, end in ARROWS),
        _text(20, 379, "The whole way, for a pod:"),
        _text(205, 379, "keyferry explain pod/NAME -n NAMESPACE", "m"),
        "</svg>\n",
    ]
    return "".join(parts)


def _box(box: Box) -> str:
    rows = [_text(box.x + 12, box.y + 26, box.heading, "h")]
    rows += [_text(box.x + 12, box.y + 48 + 18 * at, line) for at, line in enumerate(box.lines) if line]
    if box.command:
        rows.append(_text(box.x + 12, box.y + box.height - 11, box.command, "m"))
    frame = f'<rect class="x" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"/>\n'
    return frame + "".join(rows)


def _arrow(start: Box, end: Box) -> str:
    y = start.y + start.height // 2
    left, right = start.x + start.width + 3, end.x - 4
    head = f"M{right} {y} l-8 -4 v8 z"
    return f'<path class="l" d="M{left} {y} H{right - 7}"/><path class="a" d="{head}"/>\n'


def _text(x: int, y: int, text: str, style: str = "") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{named}>{escape(text)}</text>\n'


def main(argv: list[str]) -> int:
    """Write or check the diagram."""
    drawn = picture()
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == drawn:
        return 0
    if "--check" in argv:
        print(f"docs/pictures/{PICTURE.name} is out of date; run 'make pictures'")
        return 1
    PICTURE.write_text(drawn, encoding="utf-8")
    print(f"wrote docs/pictures/{PICTURE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
