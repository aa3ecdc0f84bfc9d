"""Print the development requirements of pyproject.toml, one argument each, for pip."""

import pathlib
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
print(*groups["dev"])
