"""``make mutants``: a change that no test notices is told, one that a test notices is not."""

from __future__ import annotations

import time
from pathlib import Path

from tools.mutants import run

SOURCE = """\
def check(size):
    if size > 10:
        raise ValueError(size)
    return size + 1
"""
TESTS = """\
import m, pytest

def test_check():
    assert m.check(10) == 11
    with pytest.raises(ValueError):
        m.check(20)
"""


def test_a_change_that_no_test_notices_survives(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "m.py").write_text(SOURCE, "utf-8")
    (tmp_path / "test_m.py").write_text(TESTS, "utf-8")
    found = run(tmp_path / "src", "m.py", [str(tmp_path / "test_m.py")], until=time.monotonic() + 300)
    assert {(line, what): outcome for line, what, outcome in found} == {
        (2, "the condition is True"): "noticed",
        (2, "the condition is False"): "noticed",
        (2, "another comparison"): "noticed",
        (2, "another number"): "survived",
        (2, "without 'raise ValueError(size)'"): "noticed",
        (4, "None is returned"): "noticed",
        (4, "another number"): "noticed",
    }
