"""The mutants of ``make mutants``: each is a program, changes one place, and is still there where a list names it."""

import ast
from pathlib import Path

import pytest
from tools import mutants

SOURCE = '''\
def check(size: int, name: str) -> bool:
    """Döcs."""
    if size > 10 and not name:
        raise ValueError("ö", 1)
    close(name)
    return size + 1
'''

MODULE = "keyferry/agent/access"


def changes(source: str) -> set[str]:
    return {mutant.change for mutant in mutants.mutants_of("m", source)}


def test_operators_change_conditions_bounds_errors_calls_and_answers() -> None:
    assert changes(SOURCE) == {
        "size > 10 and not name → False",
        "size > 10 and not name → True",
        "size > 10 and not name → (size > 10 or not name)",
        "size > 10 and not name → (not name)",
        "size > 10 and not name → (size > 10)",
        "size > 10 → (size >= 10)",
        "size > 10 → (size <= 10)",
        "not name → (name)",
        "10 → 11",
        """raise ValueError("ö", 1) → pass""",
        "close(name) → pass",
        "size + 1 → None",
        "1 → 2",
    }


@pytest.mark.parametrize("mutant", mutants.mutants_of("m", SOURCE), ids=lambda mutant: mutant.change)
def test_a_mutant_is_a_program_with_one_change(mutant: mutants.Mutant) -> None:
    applied = mutant.applied(SOURCE)
    assert ast.dump(ast.parse(applied)) != ast.dump(ast.parse(SOURCE))
    assert (
        sum(one != other for one, other in zip(applied.splitlines(), SOURCE.splitlines(), strict=True)) == 1
    )


def test_refusals_are_chosen_first_and_the_choice_does_not_depend_on_places() -> None:
    chosen = mutants.mutants_of("m", SOURCE)
    assert chosen[0].is_guard
    moved = mutants.mutants_of("m", "import os\n\n\n" + SOURCE)
    assert [mutant.name for mutant in moved] == [mutant.name for mutant in chosen]


@pytest.mark.parametrize("module", mutants.MODULES)
def test_a_listed_module_has_tests(module: str) -> None:
    tests = mutants.tests_of(module)
    assert tests
    assert all(Path(each).is_file() for each in tests)


def test_every_equivalent_mutant_is_one_that_would_be_run() -> None:
    """An entry ends with the code that it is about."""
    names = {mutant.name for module in mutants.MODULES for mutant in mutants.chosen(module)}
    assert set(mutants.equivalents()) <= names


def page_lines() -> list[mutants.Line]:
    return mutants.lines_of(mutants.PAGE.read_text("utf-8"))


def test_the_page_has_a_line_for_each_module() -> None:
    """And none for a module that is no more."""
    assert [line.module for line in page_lines()] == list(mutants.MODULES)


@pytest.mark.parametrize("line", page_lines(), ids=lambda line: line.module)
def test_the_numbers_of_a_line_are_those_of_the_set(line: mutants.Line) -> None:
    """Those of a module that has changed since are about another set, and add up alone."""
    of = dict(zip(mutants.COLUMNS, line.numbers, strict=True))
    assert of["mutants"] == of["killed"] + of["equivalent"] + of["survived"] + of["not run"]
    if line.is_current:
        names = [mutant.name for mutant in mutants.chosen(line.module)]
        assert of["mutants"] == len(names)
        assert of["equivalent"] == len(mutants.equivalents().keys() & names)


def test_the_page_marks_the_lines_of_older_sources() -> None:
    page = mutants.PAGE.read_text("utf-8")
    assert mutants.marked_page(page) == page, "run make generated"


def test_a_line_of_an_older_source_counts_apart() -> None:
    current = mutants.Line(MODULE, "2026-01-01", mutants.short_digest(MODULE), (8, 6, 1, 1, 0))
    older = mutants.Line(MODULE, "2026-01-01", "00000000", (8, 8, 0, 0, 0))
    page = mutants.marked_page(mutants.BEGIN + mutants.END, [current, older])
    assert f"| `{MODULE}.py` | 2026-01-01 | `{current.source}` | 8 | 6 | 1 | 1 | 0 |\n" in page
    assert f"| `{MODULE}.py` | 2026-01-01, changed since | `00000000` | 8 | 8 | 0 | 0 | 0 |\n" in page
    assert "| 1 module, unchanged since |  |  | 8 | 6 | 1 | 1 | 0 |\n" in page
    assert "| 1 module, changed since |  |  | 8 | 8 | 0 | 0 | 0 |\n" in page
    assert mutants.lines_of(page) == [current, older]
    assert mutants.marked_page(page) == page


def test_a_line_is_kept_until_all_its_mutants_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "CACHE", tmp_path)
    older = mutants.Line(MODULE, "2026-01-01", "00000000", (8, 8, 0, 0, 0))
    page = mutants.marked_page(mutants.BEGIN + mutants.END, [older])
    outcomes = mutants.Outcomes()
    *first, last = mutants.chosen(MODULE)
    for mutant in first:
        outcomes.keep(mutant, "killed")
    assert mutants.lines_from([MODULE], outcomes, page) == [older]
    outcomes.keep(last, "killed")
    (line,) = mutants.lines_from([MODULE], outcomes, page)
    assert line.is_current
    assert line.numbers == (len(first) + 1, len(first) + 1, 0, 0, 0)
