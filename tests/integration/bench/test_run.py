"""A whole run writes the docs, a look at some groups writes nothing, and a group that fails is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.report import BEGIN, END

from support.bench_project import make_project

PAGE = f"# Speed\n\n{BEGIN}\nof another run\n{END}\n\nby hand\n"
GOOD = """
from bench.measure import Row, median, skipped, take_turns
def run(folder):
    rounds = take_turns({"a": lambda: [2.0], "floor": lambda: [1.0]}, 40)
    rows = [Row("good", median(rounds["a"]), "ms", median(rounds["floor"]), "floor", 3.0, str(len(rounds["a"])))]
    return [*rows, skipped("a peer", "not installed")]
"""
BAD = "def run(folder):\n    raise ValueError('too bad')\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    home = make_project(tmp_path / "project", "good", "bad")
    (home / "bench" / "good.py").write_text(GOOD)
    (home / "bench" / "bad.py").write_text(BAD)
    (home / "docs").mkdir()
    (home / "docs" / "speed.md").write_text(PAGE, encoding="utf-8")
    return home


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(project / "bench" / "run.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def page_of(project: Path) -> str:
    return (project / "docs" / "speed.md").read_text(encoding="utf-8")


def test_a_whole_run_writes_the_tables_and_leaves_the_prose(project: Path) -> None:
    run(project)
    page = page_of(project)
    assert page.startswith(f"# Speed\n\n{BEGIN}\n")
    assert page.endswith(f"{END}\n\nby hand\n")
    assert "of another run" not in page
    assert "### All of good" in page
    assert "| good (40) | 2 ms | 2 to 2 | floor: 1 ms | 2.00 | 2.00 to 2.00 | 3 x | yes |" in page
    assert "Beside it: kubectl " in page


def test_a_group_that_fails_is_named_the_others_are_measured_and_the_run_fails(project: Path) -> None:
    done = run(project)
    assert done.returncode == 1
    for shown in (done.stdout, page_of(project)):
        assert "the group bad: failed: ValueError: too bad" in shown
        assert "a peer: not installed" in shown


@pytest.mark.parametrize("words", [("good",), ("--quick",), ("--quick", "good"), ("--json", "good")])
def test_a_look_at_some_groups_or_a_quick_one_writes_nothing(project: Path, words: tuple[str, ...]) -> None:
    done = run(project, *words)
    assert "good" in done.stdout
    assert page_of(project) == PAGE


def test_a_quick_look_takes_few_rounds(project: Path) -> None:
    assert "good (3)" in run(project, "--quick", "good").stdout


def test_programs_get_a_document(project: Path) -> None:
    done = run(project, "--json", "good")
    assert done.returncode == 0
    (row, peer) = json.loads(done.stdout)["rows"]
    assert (row["group"], row["measured"], row["ratio"], row["holds"]) == ("good", 2.0, 2.0, True)
    assert (peer["measured"], peer["note"]) == (None, "not installed")


def test_a_group_that_nobody_knows_is_wrong_usage(project: Path) -> None:
    done = run(project, "other")
    assert done.returncode == 2
    assert "no group is called other; there are good, bad" in done.stderr
