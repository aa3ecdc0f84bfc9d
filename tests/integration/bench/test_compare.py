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
    return [Row("the price", COST, "µs"), {more}]
"""


def git(repository: Path, *words: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    command = [need("git"), "-C", str(repository), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(repository: Path, cost: float, group: str) -> str:
    """A commit of a small project, with the real benchmarks' frame and one group of its own."""
    (repository / "src" / "product.py").write_text(f"COST = {cost}\n")
    (repository / "bench" / "prices.py").write_text(group)
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


def test_a_commit_stands_beside_another_by_row(repository: Path) -> None:
    before = commit(repository, 4.0, GROUP.format(more=""))
    after = commit(repository, 2.0, GROUP.format(more=""))
    done = compare(repository, "--rounds", "2", before, after, "prices")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("prices: the price")]
    assert [cell.strip() for cell in line.split("|")] == [
        "prices: the price", "4 µs", "4 to 4", "2 µs", "2 to 2", "0.50", "0.5 to 0.5",
    ]  # fmt: skip
    turns = [line for line in done.stderr.splitlines() if line.startswith("compare: ")]
    assert [line.split(", ")[1].split()[0] for line in turns] == ["after", "before", "before", "after"]
    assert git(repository, "status", "--porcelain") == ""
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_both_are_measured_with_the_later_benchmarks(repository: Path) -> None:
    before = commit(repository, 4.0, GROUP.format(more="Row('old', 1.0)"))
    after = commit(repository, 2.0, GROUP.format(more="Row('new', COST)"))
    done = compare(repository, "--rounds", "1", before, after)
    assert "prices: new" in done.stdout
    assert "0.50" in done.stdout
    assert "prices: old" not in done.stdout


def test_where_those_do_not_run_a_commit_is_measured_with_its_own(repository: Path) -> None:
    """Rows that only one has are named, and so is the reason."""
    before = commit(repository, 4.0, GROUP.format(more="Row('old', 1.0)"))
    (repository / "src" / "later.py").write_text("")
    after = commit(repository, 2.0, "import later\n" + GROUP.format(more="Row('new', 1.0)"))
    done = compare(repository, "--rounds", "2", before, after, "prices")
    assert done.returncode == 0, done.stderr
    assert "prices: the price" in done.stdout
    assert "only before: prices: old" in done.stdout
    assert "only after: prices: new" in done.stdout
    reason = "prices does not run: failed: ModuleNotFoundError: No module named 'later'"
    assert done.stdout.count(f"before, before-with-new-bench: {reason}") == 1


def test_a_commit_that_is_none_is_an_error(repository: Path) -> None:
    done = compare(repository, commit(repository, 4.0, GROUP.format(more="")), "no-such-commit", "prices")
    assert done.returncode
    assert "no-such-commit" in done.stderr
