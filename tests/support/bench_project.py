"""A small project with the framework of the real benchmarks, and its own groups that take no time."""

from __future__ import annotations

import shutil
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
_FRAME = ("measure.py", "report.py", "peers.py", "compare.py")


def make_project(home: Path, *groups: str) -> Path:
    """Write the project; each group is the function ``run`` of ``bench/NAME.py``, which the caller writes."""
    (home / "src").mkdir(parents=True)
    (home / "bench").mkdir()
    for name in _FRAME:
        shutil.copy(BENCH / name, home / "bench")
    table = ", ".join(f'"{name}": Group("{name}", "run", "All of {name}")' for name in groups)
    frame = (BENCH / "run.py").read_text(encoding="utf-8")
    own = frame.replace("def main", f"GROUPS = {{{table}}}\n\n\ndef main", 1)
    (home / "bench" / "run.py").write_text(own, encoding="utf-8")
    return home
