"""A run prints one screen; a whole one writes the docs, one of some groups writes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.sections import marks, section

from support.bench_project import BENCH, make_project

BEGIN, END = marks("bench")
PAGE = f"# Figures\n\n{BEGIN}\nof another run\n{END}\n\nby hand\n"
GOOD = """
from bench.measure import Row, take_turns
def run(folder):
    rounds = take_turns({"ours": lambda: [2.0], "floor": lambda: [1.0], "gone": missing}, 40)
    return [
        rounds.row("good", "ours", "floor", most_times=3),
        rounds.row("too slow", "ours", most=1.5),
        rounds.row("quick", "floor", "ours"),
        Row(what="rounds", measured=len(rounds.figures["ours"])),
        rounds.row("beside a peer", "ours", "gone"),
    ]
def missing():
    raise FileNotFoundError
"""
BAD = "def run(folder):\n    raise ValueError('too bad')\n"
# What a screen shows without scrolling.
MAX_LINES, MAX_COLUMNS = 50, 100


@pytest.fixture
def project(tmp_path: Path) -> Path:
    home = make_project(tmp_path / "project", "good", "bad")
    (home / "bench" / "good.py").write_text(GOOD)
    (home / "bench" / "bad.py").write_text(BAD)
    # Nothing is installed for a group that needs no script.
    programs = home / "bench" / "programs.py"
    programs.write_text(
        programs.read_text() + "\n\ndef describe_programs():\n    return {'pip': '24.0', 'skopeo': '1'}\n"
    )
    (home / "docs").mkdir()
    (home / "docs" / "figures.md").write_text(PAGE, encoding="utf-8")
    return home


def run(run_py: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(run_py), *words]
    return subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=240
    )


def rows_of(screen: str) -> dict[str, list[str]]:
    """The cells of each row, by its name."""
    split = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in screen.splitlines()]
    return {cells[0]: cells[1:] for cells in split if cells}


def test_a_whole_run_writes_one_table_and_leaves_the_prose(project: Path) -> None:
    """What cannot be measured is named in it, and a group that fails fails the run."""
    done = run(project / "bench" / "run.py")
    assert done.returncode == 1
    page = (project / "docs" / "figures.md").read_text(encoding="utf-8")
    assert page.startswith(f"# Figures\n\n{BEGIN}\n")
    assert page.endswith(f"{END}\n\nby hand\n")
    assert "of another run" not in page
    assert "| good | 2 ms | floor: 1 ms | 2.00 | 3 x | holds |" in page
    assert "| too slow | 2 ms |  |  | 1.5 ms | no |" in page
    assert "installed by pip 24.0. Beside it: skopeo 1." in page
    assert page.count("| what |") == 1
    assert rows_of(done.stdout)["quick"] == ["1 ms", "ours: 2 ms", "0.50", "ahead"]
    for shown in (done.stdout, page):
        assert "not measured: beside a peer: gone: not installed" in shown
        assert "not measured: the group bad: ValueError: too bad" in shown


def test_a_quick_run_takes_few_rounds_and_writes_nothing(project: Path) -> None:
    done = run(project / "bench" / "run.py", "--quick")
    assert rows_of(done.stdout)["rounds"] == ["3"]
    assert (project / "docs" / "figures.md").read_text(encoding="utf-8") == PAGE


def test_a_run_of_some_groups_writes_nothing_and_gives_programs_a_document(project: Path) -> None:
    done = run(project / "bench" / "run.py", "--json", "good")
    assert done.returncode == 0
    row, *_, rounds, missing = json.loads(done.stdout)["rows"]
    assert (row["group"], row["measured"], row["ratio"], row["verdict"]) == ("good", 2.0, 2.0, "holds")
    assert (rounds["what"], rounds["measured"]) == ("rounds", 40)
    assert (missing["measured"], missing["why"]) == (None, "gone: not installed")
    assert (project / "docs" / "figures.md").read_text(encoding="utf-8") == PAGE


def test_a_group_that_nobody_knows_is_wrong_usage(project: Path) -> None:
    done = run(project / "bench" / "run.py", "other")
    assert done.returncode == 2
    assert "no group is called other; there are good, bad" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="measures on one CPU")
def test_a_real_group_fits_on_a_screen() -> None:
    done = run(BENCH / "run.py", "--quick", "lookups", KEYFERRY_BENCH_ROUNDS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "1,000 first lookups at once, plugin runs" in done.stdout
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= MAX_COLUMNS


def test_the_page_of_the_docs_fits_on_a_screen() -> None:
    page = (BENCH.parent / "docs" / "figures.md").read_text(encoding="utf-8")
    assert 0 < sum(line.startswith("| ") for line in section(page, "bench").splitlines()) <= MAX_LINES
