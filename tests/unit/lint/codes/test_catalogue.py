"""The table of codes is complete, and written to be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import keyferry
from keyferry._core.severity import Severity
from keyferry.lint.codes import catalogue
from keyferry.lint.codes.catalogue import CODES, Code

SOURCES = Path(keyferry.__file__).parent


def used_codes(source: bytes) -> Iterator[str]:
    """The codes in a module that may be reported: not those that it explains, only sorts into a set, or compares."""
    tree = ast.parse(source)
    others = {
        id(inner) for node in ast.walk(tree) for part in parts_not_used(node) for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and id(node) not in others
            and re.fullmatch(r"KF\d{3}", str(node.value))
        ):
            yield str(node.value)


def parts_not_used(node: ast.AST) -> list[ast.expr]:
    """The keys of a dictionary, the members of a set, the operands of a comparison."""
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key]
    if isinstance(node, ast.Set):
        return node.elts
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("set", "frozenset")
    ):
        return node.args
    return []


def test_every_code_in_the_sources_is_explained_and_every_explained_one_is_used() -> None:
    files = (path for path in SOURCES.rglob("*.py") if path != Path(catalogue.__file__))
    assert {code for path in files for code in used_codes(path.read_bytes())} == set(CODES)


def test_an_explanation_is_no_use() -> None:
    source = b'EXPLAINED = {"KF198": ("KF199 is older", "why", "fix")}\ndef f():\n    return found("KF197")\n'
    assert list(used_codes(source)) == ["KF197"]


@pytest.mark.parametrize(
    "text",
    [
        'A = {"KF198"}',
        'A = frozenset({"KF198"})',
        'A = frozenset(("KF198", "KF199"))',
        'A = code == "KF198"',
        'A = code in ("KF198", "KF199")',
    ],
)
def test_a_set_and_a_comparison_are_no_use(text: str) -> None:
    assert list(used_codes(text.encode())) == []


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.code)
def test_a_code_says_why_it_matters_and_what_to_do(code: Code) -> None:
    assert isinstance(code.severity, Severity)
    for text in (code.title, code.why, code.fix):
        assert text
        assert not text.endswith(".")
        assert text == text.strip()


def test_refusals_are_errors_and_the_rest_is_not() -> None:
    """In each hundred: KF1 for provider configs, KF2 for kubeconfigs, KF3 for kuberc, KF6 for federation configs."""
    for hundred in ("KF1", "KF2", "KF3", "KF6"):
        codes = {name: code for name, code in CODES.items() if name.startswith(hundred)}
        assert {code.severity for name, code in codes.items() if name[3:] < "50"} == {"error"}
        assert {code.severity for name, code in codes.items() if name[3:] >= "50"} == {"warning", "info"}


def test_codes_are_listed_in_order() -> None:
    assert list(CODES) == sorted(CODES)
