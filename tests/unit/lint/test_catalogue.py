"""The table of codes is complete, and written to be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import keyferry
from keyferry._core.severity import Severity
from keyferry.lint.catalogue import CODES
from keyferry.lint.code import Code, Finding, Rules

SOURCES = Path(keyferry.__file__).parent
CODE = re.compile(r"KF\d{3}")


def used_codes(source: bytes) -> Iterator[str]:
    """The codes in a module that it may report, by their names or as texts.

    The definition of a code is no use of it, nor is its place in a set, in the keys of a dictionary, in a comparison or
    above a rule.
    """
    tree = ast.parse(source)
    others = {
        id(inner) for node in ast.walk(tree) for part in parts_not_used(node) for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.value if isinstance(node, ast.Constant) else ""
        if id(node) not in others and CODE.fullmatch(str(name)):
            yield str(name)


def parts_not_used(node: ast.AST) -> list[ast.expr]:
    """The keys of a dictionary, the members of a set, the operands of a comparison, a definition, a decorator."""
    match node:
        case ast.Dict():
            return [key for key in node.keys if key]
        case ast.Set(elts=parts) | ast.Call(func=ast.Name(id="set" | "frozenset"), args=parts):
            return parts
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Assign(value=ast.Call(func=ast.Name(id="Code"))):
            return [*node.targets, node.value]
        case ast.FunctionDef():
            return node.decorator_list
    return []


def test_every_code_in_the_sources_is_explained_and_every_explained_one_is_used() -> None:
    assert {code for path in SOURCES.rglob("*.py") for code in used_codes(path.read_bytes())} == set(CODES)


@pytest.mark.parametrize(
    "text",
    [
        'A = {"KF198"}',
        'A = {"KF198": "KF199 is older"}',
        'A = frozenset({"KF198"})',
        'A = frozenset(("KF198", "KF199"))',
        'A = code == "KF198"',
        'A = code in ("KF198", "KF199")',
        'KF198 = Code("KF198", Severity.ERROR, "KF199 is older")',
        "@rule(KF198)\ndef f(): ...",
    ],
)
def test_an_explanation_a_set_and_a_comparison_are_no_use(text: str) -> None:
    assert list(used_codes(text.encode())) == []


def test_a_finding_and_a_text_are_a_use() -> None:
    source = b'@rule(KF196)\ndef f():\n    yield KF197.at("a")\n    return found("KF195")'
    assert set(used_codes(source)) == {"KF195", "KF197"}


def test_a_rule_reports_the_codes_that_it_declares() -> None:
    """Who writes a rule for another code sees it in the first test of the rule."""
    rules = Rules[str]()

    @rules(CODES["KF176"])
    def rule(_: str) -> Iterator[Finding]:
        yield CODES["KF177"].at(message="not declared")

    with pytest.raises(AssertionError, match="KF177"):
        list(rules.check("subject"))


def test_a_number_is_that_of_one_code() -> None:
    """Who takes the number of another code sees which one has it."""
    with pytest.raises(ValueError, match="KF176 is taken: 'credentials are not cached'"):
        Code("KF176", Severity.WARNING, "another title", why="another reason", fix="another correction")


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
