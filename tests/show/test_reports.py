"""Documents in JSON and YAML, SARIF, and the commands of GitHub Actions."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import pytest
import yaml

from keyferry._core.severity import Severity
from keyferry.show.documents import as_yaml, make_document, render_document
from keyferry.show.reports import SarifResult, SarifRule, annotation, to_sarif

RULES = (
    SarifRule(code="A1", severity=Severity.ERROR, title="one", why="why one", fix="do one"),
    SarifRule(code="A2", severity=Severity.INFO, title="two", why="why two", fix="do two"),
)


def test_the_tool_and_its_rules_say_where_to_read_more() -> None:
    document: Any = to_sarif(RULES, [], docs="https://docs.example/keyferry")
    driver = document["runs"][0]["tool"]["driver"]
    assert driver["informationUri"] == "https://docs.example/keyferry"
    assert driver["semanticVersion"] == driver["version"]
    assert [rule["helpUri"] for rule in driver["rules"]] == [
        "https://docs.example/keyferry/lint-codes.html#a1",
        "https://docs.example/keyferry/lint-codes.html#a2",
    ]


def test_while_nobody_serves_the_docs_the_rules_carry_the_help_themselves() -> None:
    """A document of this version refers to no address; it has the text, for those who show Markdown too."""
    document: Any = to_sarif(RULES, [], docs="")
    driver = document["runs"][0]["tool"]["driver"]
    assert "informationUri" not in driver
    assert all("helpUri" not in rule for rule in driver["rules"])
    assert driver["rules"][0]["help"] == {
        "text": "why one\n\nWhat to do: do one",
        "markdown": "**A1: one**\n\nwhy one\n\n**What to do:** do one",
    }


def test_a_finding_has_a_level_that_scanners_know() -> None:
    """And no place unless it has one."""
    findings = [SarifResult(code="A1", severity=severity, message="m") for severity in Severity]
    results: Any = to_sarif(RULES, findings)["runs"]
    assert [each["level"] for each in results[0]["results"]] == ["error", "warning", "note"]
    assert "locations" not in results[0]["results"][0]


def _prints(*findings: SarifResult) -> list[str]:
    document: Any = to_sarif(RULES, findings)
    return [each["partialFingerprints"]["keyferryFinding/v1"] for each in document["runs"][0]["results"]]


def test_a_fingerprint_survives_what_moves_a_finding() -> None:
    """Lines and indices change when something is added above; the code, the file and the message stay."""

    def found(message: str, path: str, line: int) -> SarifResult:
        return SarifResult(
            code="A1", severity=Severity.ERROR, message=message, path=path, file="x.yaml", line=line
        )

    first = _prints(found("'x': first at line 3", "a[0].b", 4))
    assert _prints(found("'x': first at line 9", "a[7].b", 10)) == first
    assert _prints(found("'y': first at line 3", "a[0].b", 4)) != first


def test_equal_findings_of_a_run_are_told_apart() -> None:
    finding = SarifResult(code="A1", severity=Severity.ERROR, message="same", path="a", file="x.yaml", line=4)
    one, two = _prints(finding, finding)
    assert (one[:64], one[-2:], two[-2:]) == (two[:64], ":1", ":2")


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


def test_text_that_only_looks_like_another_type_is_quoted() -> None:
    """YAML would read it as a number or a boolean otherwise."""
    assert yaml.safe_load(str(as_yaml({"a": "yes", "b": "1", "c": Colour.RED}))) == {
        "a": "yes",
        "b": "1",
        "c": "red",
    }


def test_an_annotation_has_its_severity_and_nothing_of_a_text_ends_it() -> None:
    commands = [annotation(severity, "KF1", "m").partition(" ")[0] for severity in Severity]
    assert commands == ["::error", "::warning", "::notice"]
    shown = annotation(Severity.ERROR, "a:b,c", "100%\r\n::error::x", file="d,e:f%.yaml", line=3, column=4)
    assert shown == ("::error file=d%2Ce%3Af%25.yaml,line=3,col=4,title=a%3Ab%2Cc::100%25%0D%0A::error::x")
    assert "\033" not in annotation(Severity.INFO, "t", "a\033[2J")
