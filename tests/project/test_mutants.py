"""``make mutants``: a change that no test notices is told, one that a test notices is not."""

from __future__ import annotations

import time
from pathlib import Path

from tools.mutants import run

SOURCE = "def is_long(size):\n    return size > 10\n"
TESTS = "import m\n\ndef test_it():\n    assert m.is_long(20) and not m.is_long(9)\n"


def test_a_change_that_no_test_notices_survives(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "m.py").write_text(SOURCE, "utf-8")
    (tmp_path / "test_m.py").write_text(TESTS, "utf-8")
    found = run(tmp_path / "src", "m.py", [str(tmp_path / "test_m.py")], until=time.monotonic() + 300)
    assert {(line, what): outcome for line, what, outcome in found} == {
        (2, "None is returned"): "noticed",
        (2, "another comparison"): "survived",
        (2, "another number"): "survived",
    }
