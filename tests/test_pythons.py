"""The table of ``make pythons``: a line for every Python that is named and for the next, from what pytest prints."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def pythons(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return import_module("run_pythons")


@pytest.mark.parametrize(
    ("output", "cells"),
    [
        ("....\n4 passed in 0.10s\n", "4 | 0 | 0"),
        ("== 3 failed, 40 passed, 2 skipped, 1 error in 12.5s (0:00:12) ==\n", "40 | 2 | 4"),
        ("1 passed in 1s\n7 passed, 5 warnings in 61.00s (0:01:01)\n", "7 | 0 | 0"),
    ],
)
def test_cells_are_the_outcomes_that_pytest_prints(pythons: ModuleType, output: str, cells: str) -> None:
    assert pythons.cells_of(output, "3.13.0", "2026-01-01") == f"2026-01-01 | 3.13.0 | {cells}"


def test_tests_that_did_not_run_are_no_success(pythons: ModuleType) -> None:
    assert not pythons.cells_of("make: *** [unit] Error 1\n", "3.13.0", "2026-01-01").endswith("| 0")


def test_lines_that_are_not_made_are_kept(pythons: ModuleType) -> None:
    named = ["3.11", "3.12"]
    page = pythons.with_lines(f"a\n{pythons.BEGIN}{pythons.END}b\n", {"3.12": "x | y | 1 | 0 | 0"}, named)
    assert f"| 3.11 | {pythons.NOT_RUN} |\n| 3.12 | x | y | 1 | 0 | 0 |\n" in page
    assert pythons.with_lines(page, {}, named) == page
    assert page.startswith("a\n")
    assert page.endswith("b\n")


def test_the_page_has_a_line_for_every_python(pythons: ModuleType) -> None:
    """One that was not run has a line that says so."""
    page = pythons.PAGE.read_text("utf-8")
    table = page.partition(pythons.BEGIN)[2].partition(pythons.END)[0]
    lines = dict(re.findall(r"^\| (3\.\d+) \| (.*) \|$", table, re.MULTILINE))
    assert list(lines) == pythons.versions()
    named = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    assert all(f"Programming Language :: Python :: {each}" in named for each in pythons.versions()[:-1])
