"""How ``make fuzz`` lets the corpus grow: the smallest inputs first, up to bounds that the corpus has not reached."""

from pathlib import Path

import pytest
from tools import run_fuzz

from fuzz.targets import TARGETS, corpus


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
    for number in range(run_fuzz.MOST_FILES + 5):
        (grown / f"{number:012x}{number:028x}").write_bytes(b"a" * (100 - number))
    run_fuzz.add_files(grown, tree)
    assert len(names(tree)) == run_fuzz.MOST_FILES
    assert {path.stat().st_size for path in tree.iterdir()} == {4, *range(56, 95)}
    before = names(tree)
    run_fuzz.add_files(grown, tree)
    assert names(tree) == before


def test_the_smallest_are_added_up_to_a_number_of_bytes(tree: Path) -> None:
    grown = tree.parent / "grown"
    for number in range(run_fuzz.MOST_FILES):
        (grown / f"{number:012x}{number:028x}").write_bytes(bytes(2048))
    run_fuzz.add_files(grown, tree)
    assert len(names(tree)) == 1 + (run_fuzz.MOST_KIB - 1) // 2
    assert sum(path.stat().st_size for path in tree.iterdir()) <= run_fuzz.MOST_KIB << 10


def test_what_is_there_is_not_added_again(tree: Path) -> None:
    (tree.parent / "grown" / ("a" * 40)).write_bytes(b"new")
    (tree / ("a" * 12)).write_bytes(b"old")
    run_fuzz.add_files(tree.parent / "grown", tree)
    assert names(tree) == {"by-hand", "a" * 12}
    assert (tree / ("a" * 12)).read_bytes() == b"old"


@pytest.mark.parametrize("name", TARGETS)
def test_every_corpus_is_within_the_bounds(name: str) -> None:
    files = corpus(name)
    assert len(files) <= run_fuzz.MOST_FILES
    assert sum(path.stat().st_size for path in files) <= run_fuzz.MOST_KIB << 10


def test_the_corpus_can_grow() -> None:
    assert any(len(corpus(name)) < run_fuzz.MOST_FILES for name in TARGETS)


def test_the_page_names_the_bounds() -> None:
    page = run_fuzz.PAGE.read_text("utf-8")
    assert f"up to {run_fuzz.MOST_FILES} files and {run_fuzz.MOST_KIB} KiB for each reader" in page
