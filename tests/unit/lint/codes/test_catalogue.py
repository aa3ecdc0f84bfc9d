"""The table of codes is complete, and written to be read."""

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
    """The codes in a module that are not keys of a dictionary, which are explained there and not used."""
    tree = ast.parse(source)
    keys = {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and id(node) not in keys
            and re.fullmatch(r"KF\d{3}", str(node.value))
        ):
            yield str(node.value)


def test_every_code_in_the_sources_is_explained_and_every_explained_one_is_used() -> None:
    files = (path for path in SOURCES.rglob("*.py") if path != Path(catalogue.__file__))
    assert {code for path in files for code in used_codes(path.read_bytes())} == set(CODES)


def test_an_explanation_is_no_use() -> None:
    source = b'EXPLAINED = {"KF198": ("KF199 is older", "why", "fix")}\ndef f():\n    return found("KF197")\n'
    assert list(used_codes(source)) == ["KF197"]


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
