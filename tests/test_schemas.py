"""Each of our own kinds of documents has a schema. Every document that a test prints is held against it, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import keyferry
from keyferry.show.documents import make_document
from support.schemas import SHARED, check_document, check_output, kinds, load_schema

SOURCE = Path(keyferry.__file__).parent
IDENTITY = make_document(
    "ClusterIdentity", context="c", server="https://s", username="u", uid="", groups=["g"], extra={"e": ["v"]}
)


def made_kinds() -> set[str]:
    """The first argument of every call of ``make_document``; one is a constant."""
    calls = re.compile(r"""\bmake_document\(\s*(?:"(\w+)"|[A-Z]+\b)""")
    texts = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    return {kind or "PluginTrace" for text in texts for kind in calls.findall(text)}


def test_every_kind_has_a_schema_and_every_schema_a_kind() -> None:
    assert made_kinds() == set(kinds())


def test_every_kind_is_documented() -> None:
    page = (Path(__file__).parents[1] / "docs" / "library.md").read_text(encoding="utf-8")
    assert [kind for kind in kinds() if f"`{kind}`" not in page] == []


@pytest.mark.parametrize("name", [SHARED, *kinds()])
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(load_schema(name))


@pytest.mark.parametrize(
    "change",
    [{"uid": None}, {"groups": "g"}, {"extra": {"e": "v"}}, {"unheard-of": 1}, {"apiVersion": "v1"}],
    ids=["null", "no list", "no list within", "a new field", "another version"],
)
def test_a_wrong_document_is_refused(change: dict[str, Any]) -> None:
    check_document(IDENTITY)
    with pytest.raises(AssertionError):
        check_document({**IDENTITY, **change})


@pytest.mark.parametrize("name", ["uid", "apiVersion"])
def test_a_field_that_is_gone_is_missed(name: str) -> None:
    with pytest.raises(AssertionError):
        check_document({other: value for other, value in IDENTITY.items() if other != name})


def test_what_is_printed_is_checked_in_both_formats() -> None:
    """Anything else that a command prints is passed over."""
    with pytest.raises(AssertionError):
        check_output('{\n  "apiVersion": "keyferry.dev/v1alpha1",\n  "kind": "ExecInfo"\n}\n')
    with pytest.raises(AssertionError):
        check_output("apiVersion: keyferry.dev/v1alpha1\nkind: ExecInfo\n")
    check_output('{"apiVersion": "v1"}')
    check_output("USERNAME   PASSWORD\n")
