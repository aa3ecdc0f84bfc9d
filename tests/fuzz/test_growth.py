"""How ``make fuzz`` lets the corpus grow: the smallest inputs first, up to bounds that the corpus has not reached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools import run_fuzz

from fuzz.targets import TARGETS, corpus

ROOT = Path(__file__).resolve().parents[2]
SMALL = min(TARGETS, key=lambda name: len(corpus(name)))
# In place of the fuzzer: it notes its options, and finds an input that reaches new code.
ATHERIS = """\
import contextlib, os, sys, time

def Setup(words, _check):
    sys.argv[1:] = words

def Fuzz():
    with open(os.environ["GRANTED"], "a") as file:
        file.writelines(word + "\\n" for word in sys.argv if word.startswith("-max_total_time="))
    with open(os.path.join(sys.argv[-2], "0123456789abcdef"), "w") as file:
        file.write("new")
    [seconds] = [word.partition("=")[2] for word in sys.argv if word.startswith("-max_total_time=")]
    time.sleep(min(int(seconds), 4))
    print("#7 DONE", flush=True)

def instrument_imports(include):
    return contextlib.nullcontext()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    (tmp_path / "grown").mkdir()
    (tmp_path / "tree" / "by-hand").write_bytes(b"kept")
    return tmp_path / "tree"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_smallest_are_added_up_to_a_number_of_files(tree: Path) -> None:
    grown = tree.parent / "grown"
    for number in range(run_fuzz.MAX_FILES + 5):
        (grown / f"{number:012x}{number:028x}").write_bytes(b"a" * (100 - number))
    run_fuzz.add_files(grown, tree)
    assert len(names(tree)) == run_fuzz.MAX_FILES
    assert {path.stat().st_size for path in tree.iterdir()} == {4, *range(56, 95)}
    before = names(tree)
    run_fuzz.add_files(grown, tree)
    assert names(tree) == before


def test_the_smallest_are_added_up_to_a_number_of_bytes(tree: Path) -> None:
    grown = tree.parent / "grown"
    for number in range(run_fuzz.MAX_FILES):
        (grown / f"{number:012x}{number:028x}").write_bytes(bytes(2048))
    run_fuzz.add_files(grown, tree)
    assert len(names(tree)) == 1 + (run_fuzz.MAX_KIB - 1) // 2
    assert sum(path.stat().st_size for path in tree.iterdir()) <= run_fuzz.MAX_KIB << 10


def test_what_is_there_is_not_added_again(tree: Path) -> None:
    (tree.parent / "grown" / ("a" * 40)).write_bytes(b"new")
    (tree / ("a" * 12)).write_bytes(b"old")
    run_fuzz.add_files(tree.parent / "grown", tree)
    assert names(tree) == {"by-hand", "a" * 12}
    assert (tree / ("a" * 12)).read_bytes() == b"old"


@pytest.mark.parametrize("name", TARGETS)
def test_every_corpus_is_within_the_bounds(name: str) -> None:
    files = corpus(name)
    assert len(files) <= run_fuzz.MAX_FILES
    assert sum(path.stat().st_size for path in files) <= run_fuzz.MAX_KIB << 10


def test_the_corpus_can_grow() -> None:
    assert any(len(corpus(name)) < run_fuzz.MAX_FILES for name in TARGETS)


def test_the_page_names_the_bounds() -> None:
    page = run_fuzz.PAGE.read_text("utf-8")
    assert f"up to {run_fuzz.MAX_FILES} files and {run_fuzz.MAX_KIB} KiB for each reader" in page


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a run reads and may write, apart from this tree."""
    project = tmp_path / "project"
    for name in ("tools", "tests/fuzz"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "src").symlink_to(ROOT / "src")
    (project / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "reliability.md", project / "docs")
    (tmp_path / "atheris.py").write_text(ATHERIS)
    return project


def run_fuzzer(project: Path, *words: str) -> list[int]:
    """Run it; return the seconds that each target got."""
    granted = project.parent / "granted"
    environ = os.environ | {
        "PYTHONPATH": str(project.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GRANTED": str(granted),
    }
    command = [sys.executable, str(project / "tools" / "run_fuzz.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return [int(line.partition("=")[2]) for line in granted.read_text().splitlines()]


def test_a_run_changes_nothing_of_the_tree(project: Path) -> None:
    before = {name: contents(project / name) for name in ("tests", "docs", "tools")}
    run_fuzzer(project, "--minutes=3", f"--target={SMALL}")
    assert {name: contents(project / name) for name in before} == before
    assert (project / ".cache" / "fuzz-work" / SMALL / "0123456789abcdef").read_text() == "new"


def test_what_is_asked_to_be_kept_is_kept(project: Path) -> None:
    run_fuzzer(project, "--minutes=3", f"--target={SMALL}", "--keep")
    assert (project / "tests" / "fuzz" / "corpus" / SMALL / "0123456789ab").read_text() == "new"
    assert (project / "docs" / "reliability.md").read_bytes() != run_fuzz.PAGE.read_bytes()


def test_the_minutes_are_for_the_whole_run(project: Path) -> None:
    """The fuzzer gets what the large inputs have left."""
    granted = run_fuzzer(project, "--minutes=0.1", "--target=duration jwt")
    assert 0 < sum(granted) < 6
