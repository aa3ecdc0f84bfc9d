"""Our own documents are written alike in JSON and in YAML."""

from __future__ import annotations

import json
from enum import StrEnum

import pytest
import yaml

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry.show.documents import as_yaml, make_document, reason_document, render_document


class Colour(StrEnum):
    """A word of a closed set."""

    RED = "red"


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_member_of_a_word_enum_is_written_as_its_text(output: str, read: type) -> None:
    """Whoever makes a document need not think of it."""
    document = make_document("Paint", colour=Colour.RED, colours=[Colour.RED], by={Colour.RED: 1})
    assert read(str(render_document(document, output))) == {
        "apiVersion": "keyferry.dev/v1alpha1",
        "kind": "Paint",
        "colour": "red",
        "colours": ["red"],
        "by": {"red": 1},
    }


def test_the_words_of_a_reason_are_plain_texts() -> None:
    """Stage and outcome are what they were before there were enums for them."""
    reason = Reason(stage=ReasonStage.KEY, subject="reg.io", outcome=ReasonOutcome.NO_MATCH, text="why")
    document = reason_document(reason)
    assert (document["stage"], document["outcome"]) == ("key", "no-match")
    assert {type(document[name]) for name in ("stage", "outcome")} == {str}


def test_text_that_only_looks_like_another_type_is_quoted() -> None:
    """YAML would read it as a number or a boolean otherwise."""
    assert yaml.safe_load(str(as_yaml({"a": "yes", "b": "1", "c": Colour.RED}))) == {
        "a": "yes",
        "b": "1",
        "c": "red",
    }
