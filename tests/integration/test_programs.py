"""The programs of ``tools`` and ``bench``: ``--help`` says what one does, and does nothing; no option is ignored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tools", "bench", "tests/conformance")
    for path in (ROOT / folder).glob("*.py")
    if "parse_args(" in (text := path.read_text(encoding="utf-8")) or "__main__" in text
)


def run(program: str, option: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / program), option],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=60,
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_is_printed_and_nothing_else_is_done(program: str, tmp_path: Path) -> None:
    done = run(program, "--help", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {Path(program).name}")
    assert done.stdout.rstrip().splitlines()[-1].startswith((" ", "options:"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_option_that_is_unknown_is_an_error(program: str, tmp_path: Path) -> None:
    done = run(program, "--no-such-option", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: {Path(program).name}")


def test_the_programs_are_found() -> None:
    assert {"tools/release_check.py", "bench/fleet.py", "tests/conformance/run.py"} < set(PROGRAMS)
