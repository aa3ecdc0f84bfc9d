"""Print the requirements of a dependency group of pyproject.toml, one argument each, for pip: requirements.py GROUP."""

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
print(*groups[sys.argv[1]])
