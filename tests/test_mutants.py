"""The mutants of ``make mutants``: each is a program, changes one place, and is run with tests of its module."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    "text",
    [
        "import keyferry.agent.access\n",
        "from keyferry.agent.access import Rules\n",
        "from keyferry.agent import (\n    access,\n    tenants,\n)\n",
    ],
)
def test_the_tests_of_a_module_are_those_that_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(mutants, "TESTS", tmp_path)
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_x.py").write_text(text)
    (tmp_path / "unit" / "test_y.py").write_text("from keyferry.agent import tenants, accessible\n")
    assert mutants.tests_of("keyferry/agent/access") == [str(tmp_path / "unit" / "test_x.py")]
