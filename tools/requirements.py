"""Print the requirements of a dependency group of pyproject.toml, one argument each, for pip."""

from __future__ import annotations

import argparse
import pathlib
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("group", choices=groups)
print(*groups[parser.parse_args().group])
