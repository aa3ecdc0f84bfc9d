"""The programs of ``tools`` and ``bench`` read their options before they do anything: none is ignored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tools", "bench", "tests/conformance")
    for path in (ROOT / folder).glob("*.py")
    if "parse_args(" in (text := path.read_text(encoding="utf-8")) or "__main__" in text
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_option_that_is_unknown_is_an_error(program: str, tmp_path: Path) -> None:
    """The parser that says so has ``--help`` too."""
    command = [sys.executable, str(ROOT / program), "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: {Path(program).name} [-h]")
