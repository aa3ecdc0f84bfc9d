"""Each of our own kinds of documents has a schema. Every document that a test prints is held against it, too."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import keyferry
from keyferry.kit.trace import KIND
from keyferry.show.documents import make_document
from support.schemas import SHARED, check_document, check_output, kinds, load_schema, validator

SOURCE = Path(keyferry.__file__).parent
IDENTITY = make_document(
    "ClusterIdentity", context="c", server="https://s", username="u", uid="", groups=["g"], extra={"e": ["v"]}
)


def made_kinds() -> set[str]:
    """The first argument of every call of ``make_document``."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "make_document":
                kind = node.args[0]
                found.add(str(kind.value) if isinstance(kind, ast.Constant) else KIND)
    return found


def test_every_kind_has_a_schema_and_every_schema_a_kind() -> None:
    assert made_kinds() == set(kinds())


def test_our_version_is_written_in_one_place() -> None:
    """A second spelling of it could go its own way."""
    found = [
        path.name
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and str(node.value).startswith("keyferry.dev/")
    ]
    assert len(found) == 1, found


def test_every_kind_is_documented() -> None:
    page = (Path(__file__).parents[1] / "docs" / "library.md").read_text(encoding="utf-8")
    assert [kind for kind in kinds() if f"`{kind}`" not in page] == []


@pytest.mark.parametrize("name", [SHARED, *kinds()])
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(load_schema(name))


@pytest.mark.parametrize("kind", kinds())
def test_a_document_says_what_it_is(kind: str) -> None:
    """Without its first two fields it is nothing of ours."""
    missing = {error.message for error in validator(kind).iter_errors({})}
    assert {"'apiVersion' is a required property", "'kind' is a required property"} <= missing


def test_a_right_document_passes() -> None:
    check_document(IDENTITY)


@pytest.mark.parametrize(
    "change",
    [{"uid": None}, {"groups": "g"}, {"extra": {"e": "v"}}, {"unheard-of": 1}, {"apiVersion": "v1"}],
    ids=["null", "no list", "no list within", "a new field", "another version"],
)
def test_a_wrong_document_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        check_document({**IDENTITY, **change})


def test_a_field_that_is_gone_is_missed() -> None:
    with pytest.raises(AssertionError):
        check_document({name: value for name, value in IDENTITY.items() if name != "uid"})


def test_what_is_printed_is_checked_in_both_formats() -> None:
    """Anything else that a command prints is passed over."""
    with pytest.raises(AssertionError):
        check_output('{\n  "apiVersion": "keyferry.dev/v1alpha1",\n  "kind": "ExecInfo"\n}\n')
    with pytest.raises(AssertionError):
        check_output("apiVersion: keyferry.dev/v1alpha1\nkind: ExecInfo\n")
    check_output('{"apiVersion": "v1"}')
    check_output("USERNAME   PASSWORD\n")
