"""Two commits of a repository are compared: each with its own sources, in turns, and nothing stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.bench_project import BENCH, make_project
from support.parts import need

GROUP = """
from bench.measure import Row
from product import COST
def run(folder):
    return [Row(what="the price", measured=COST, unit="µs"), {more}]
"""


def git(repository: Path, *words: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    command = [need("git"), "-C", str(repository), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(repository: Path, cost: float, more: str = "") -> str:
    """A commit of a small project, with the real benchmarks' frame and one group of its own."""
    (repository / "src" / "product.py").write_text(f"COST = {cost}\n")
    (repository / "bench" / "prices.py").write_text(GROUP.format(more=more))
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", f"cost {cost}")
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    home = make_project(tmp_path / "project", "prices")
    git(home, "init", "--quiet")
    return home


def compare(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "compare.py"), "--repository", str(repository), *words]
    temporary = repository.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=240)
    assert list(temporary.iterdir()) == []
    return done


def test_two_commits_are_measured_in_turns_with_the_later_benchmarks(repository: Path) -> None:
    before = commit(repository, 4.0, "Row(what='old', measured=1.0)")
    after = commit(repository, 2.0, "Row(what='new', measured=COST)")
    done = compare(repository, "--rounds", "2", before, after, "prices")
    assert done.returncode == 0, done.stderr
    lines = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()]
    assert lines[2:] == [["the price", "4 µs", "2 µs", "0.50"], ["new", "4", "2", "0.50"]]
    turns = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("compare: ")]
    assert turns == ["after", "before", "before", "after"]
    assert git(repository, "status", "--porcelain") == ""
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_commit_that_is_none_is_an_error(repository: Path) -> None:
    done = compare(repository, commit(repository, 4.0), "no-such-commit", "prices")
    assert done.returncode
    assert "no-such-commit" in done.stderr
