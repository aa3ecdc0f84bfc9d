"""The table of faults on the page is that of the tests: each test checks its own lines, and here those of no test."""

from __future__ import annotations

from pathlib import Path

from support.fault_table import PAGE, Line, lines_of, with_lines

TESTS = Path(__file__).resolve().parents[1]


def test_every_line_names_a_test_that_tries_its_fault() -> None:
    lines = lines_of(PAGE.read_text(encoding="utf-8"))
    assert lines
    assert len(lines) == len(set(lines))
    for line in lines:
        fault, _, _, test = (cell.strip(" `") for cell in line.strip("|").split("|"))
        assert f'"{fault}"' in (TESTS / test).read_text(encoding="utf-8")


def test_lines_are_read_as_they_are_written() -> None:
    line = Line("a", "b", "c", "d")
    page = with_lines(PAGE.read_text(encoding="utf-8"), [line])
    assert lines_of(page) == [line.text]
    assert page.startswith("# Figures\n")
