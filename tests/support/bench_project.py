"""A small project with the framework of the real benchmarks, and groups of its own that take no time."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
_FRAME = ("measure.py", "report.py", "programs.py", "compare.py", "sections.py")


def make_project(home: Path, *groups: str) -> Path:
    """Write the project; each group is the function ``run`` of ``bench/NAME.py``, which the caller writes."""
    (home / "src").mkdir(parents=True)
    (home / "bench").mkdir()
    for name in _FRAME:
        shutil.copy(BENCH / name, home / "bench")
    frame = (BENCH / "run.py").read_text(encoding="utf-8")
    own = re.sub(r"^GROUPS = .*$", f"GROUPS = {groups!r}", frame, count=1, flags=re.MULTILINE)
    (home / "bench" / "run.py").write_text(own, encoding="utf-8")
    return home
