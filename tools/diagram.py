"""Draw the diagrams of the docs, which are data in the modules of ``diagrams``, into docs/pictures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from diagrams import decision, life, lookup, threats
from diagrams.drawing import draw

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
PICTURES = (lookup.PICTURE, decision.PICTURE, life.PICTURE, threats.PICTURE)


def main(argv: list[str]) -> int:
    """Write or check the diagrams."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="say what is out of date, and exit 1")
    args = parser.parse_args(argv)
    drawn = {FOLDER / picture.file: draw(picture) for picture in PICTURES}
    outdated = [path for path, svg in drawn.items() if not path.exists() or path.read_text("utf-8") != svg]
    for path in outdated:
        if args.check:
            print(f"docs/pictures/{path.name} is out of date; run 'make pictures'")
        else:
            path.write_text(drawn[path], encoding="utf-8")
            print(f"wrote docs/pictures/{path.name}")
    return 1 if outdated and args.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
