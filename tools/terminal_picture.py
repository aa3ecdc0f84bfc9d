"""Draw docs/pictures/terminal.svg: a terminal on which keyferry explains why a pod cannot pull its image.

The commands are really run, on a pseudo-terminal, against the API server and the node of the tests; ages and times of
day are always the same.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.commands import Node
from support.kubernetes_api import pod
from support.pod_world import PodWorld, pod_world
from support.pull_reports import pulled

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "terminal.svg"
COLUMNS = 98
HOST = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
IMAGE = f"{HOST}/team/app:v1"
TRAP, CURE = "*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com"
AUTH = f'{{"{HOST}": {{"username": "AWS", "password": "kf-marked-password"}}}}'
# As containerd and the kubelet write it.
EVENT = (
    f'Failed to pull image "{IMAGE}": failed to pull and unpack image "{IMAGE}": failed to resolve reference'
    f' "{IMAGE}": pulling from host {HOST} failed with status code [manifests v1]: 401 Unauthorized'
)
EXPLAIN = "keyferry explain pod/web -n shop"
_BOLD, _DIM, _CYAN, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
_CONFIG_FOLDER = "/etc/kubernetes"

_CLASSES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}
_LEFT, _TOP, _LINE, _ADVANCE = 20, 62, 19, 7.9
_TITLE = (
    "A terminal: the pod's event says 401 Unauthorized; keyferry explain names the pattern that does not match,"
    " and the one that does"
)
_STYLE = """\
  text {
    font: 13px ui-monospace, SFMono-Regular, "DejaVu Sans Mono", Menlo, Consolas, monospace;
    fill: #1f2328; white-space: pre
  }
  .w { fill: #f6f8fa; stroke: #d0d7de }
  .b { font-weight: bold }
  .d { fill: #656d76 }
  .r { fill: #cf222e }
  .g { fill: #116329 }
  .y { fill: #7d4e00 }
  .c { fill: #2456c7 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .w { fill: #0d1117; stroke: #30363d }
    .d { fill: #8d96a0 }
    .r { fill: #ff7b72 }
    .g { fill: #56d364 }
    .y { fill: #e3b341 }
    .c { fill: #8fb3ff }
  }
"""
_BUTTONS = ((22, "#ff5f57"), (42, "#febc2e"), (62, "#28c840"))


def lines() -> list[str]:
    """Return the lines of the terminal, with colours: the event, the explanation, and the same after the cure."""
    # The folder's name is as long as the one it has on a real node, so that lines are broken at the same places.
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir="/tmp", prefix="kf") as etc,
        pod_world(Path(folder)) as world,
    ):
        _set_up(world, Path(etc), TRAP)
        before = _run(world)
        (world.node.bin_dir / "ecr").unlink()
        world.node.bin_dir.rmdir()
        _set_up(world, Path(etc), CURE)
        world.forget_events()
        world.report(pulled(IMAGE))
        world.publish()
        after = _run(world)
    return [
        f"{_DIM}# the event, in kubectl describe pod web -n shop{_RESET}",
        *textwrap.wrap(
            EVENT,
            COLUMNS,
            initial_indent="  Warning  Failed  ",
            subsequent_indent=" " * 19,
            break_on_hyphens=False,
        ),
        "",
        f"{_BOLD}$ {EXPLAIN}{_RESET}",
        *before,
        "",
        f"{_DIM}# with that pattern in the config, after a restart of the kubelet:{_RESET}",
        f"{_BOLD}$ {EXPLAIN}{_RESET}",
        *after,
    ]


def _set_up(world: PodWorld, folder: Path, pattern: str) -> None:
    world.node = Node(folder).add("ecr", [pattern], AUTH)
    world.names[str(folder)] = _CONFIG_FOLDER
    world.api.add(pod(images=(IMAGE,)))
    world.add_event(EVENT)


def _run(world: PodWorld) -> list[str]:
    """Return what the command shows, with the same ages and times of day in every picture."""
    shown = world.show(EXPLAIN, COLUMNS).replace("\r\n", "\n")
    shown = re.sub(r"\d+ s ago|less than a second ago", "12 s ago", shown)
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "11:52:07", shown).rstrip("\n").split("\n")


def spans(line: str) -> Iterator[tuple[int, str, str]]:
    """Yield the pieces of a line of one style each: the column, the classes of the style, and the text."""
    column, classes = 0, ""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b"):
            codes = piece[2:-1].split(";")
            added = " ".join(_CLASSES[code] for code in codes if code in _CLASSES)
            classes = "" if codes[-1] in ("", "0") else f"{classes} {added}".strip()
        elif piece:
            yield column, classes, piece
            column += len(piece)


def picture(shown: list[str]) -> str:
    """Return the terminal as an SVG that follows the reader's choice of light or dark."""
    width = round(2 * _LEFT + COLUMNS * _ADVANCE)
    height = _TOP + len(shown) * _LINE
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        f' role="img" aria-labelledby="t">\n<title id="t">{escape(_TITLE)}</title>\n<style>\n{_STYLE}</style>\n',
        f'<rect class="w" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>\n',
        *(f'<circle cx="{x}" cy="22" r="6" fill="{colour}"/>\n' for x, colour in _BUTTONS),
    ]
    body = [
        _text(_LEFT + column * _ADVANCE, _TOP + row * _LINE, classes, text)
        for row, line in enumerate(shown)
        for column, classes, text in spans(line)
        if text.strip()
    ]
    return "".join((*head, *body, "</svg>\n"))


def _text(x: float, y: int, classes: str, text: str) -> str:
    # The length is given, so that columns stay columns whichever font the reader has.
    blank = len(text) - len(text.lstrip())
    text = text.strip()
    style = f' class="{classes}"' if classes else ""
    where = f'x="{x + blank * _ADVANCE:g}" y="{y}" textLength="{len(text) * _ADVANCE:g}"'
    return f"<text {where}{style}>{escape(text)}</text>\n"


def main(argv: list[str]) -> int:
    """Write or check the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="say what is out of date, and exit 1")
    args = parser.parse_args(argv)
    drawn = picture(lines())
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == drawn:
        return 0
    if args.check:
        print(f"docs/pictures/{PICTURE.name} is out of date; run 'make pictures'")
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn, encoding="utf-8")
    print(f"wrote docs/pictures/{PICTURE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
