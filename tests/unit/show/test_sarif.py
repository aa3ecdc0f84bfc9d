"""SARIF from neutral values."""

from __future__ import annotations

from typing import Any

from keyferry._core.severity import Severity
from keyferry.show.reports import SarifResult, SarifRule, to_sarif

RULES = (
    SarifRule(code="A1", severity=Severity.ERROR, title="one", why="why one", fix="do one"),
    SarifRule(code="A2", severity=Severity.INFO, title="two", why="why two", fix="do two"),
)


def test_a_finding_points_to_its_rule_and_place() -> None:
    finding = SarifResult(
        code="A2", severity=Severity.INFO, message="found", path="a.b", file="some folder/x.yaml", line=3
    )
    document: Any = to_sarif(
        RULES, [finding, SarifResult(code="A1", severity=Severity.ERROR, message="nowhere")]
    )
    run = document["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["A1", "A2"]
    assert len(run["results"][0].pop("partialFingerprints")["keyferryFinding/v1"]) == 66
    assert run["results"][0] == {
        "ruleId": "A2",
        "ruleIndex": 1,
        "level": "note",
        "message": {"text": "found"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "some%20folder/x.yaml"},
                    "region": {"startLine": 3, "startColumn": 1},
                },
                "logicalLocations": [{"fullyQualifiedName": "a.b"}],
            }
        ],
    }
    assert "locations" not in run["results"][1]


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


def _prints(*findings: SarifResult) -> list[str]:
    document: Any = to_sarif(RULES, findings)
    return [each["partialFingerprints"]["keyferryFinding/v1"] for each in document["runs"][0]["results"]]


def test_a_fingerprint_survives_what_moves_a_finding() -> None:
    """Lines and indices change when something is added above; the code, the file and the message stay."""
    first = SarifResult(
        code="A1",
        severity=Severity.ERROR,
        message="'x': first at line 3",
        path="a[0].b",
        file="x.yaml",
        line=4,
        column=2,
    )
    moved = SarifResult(
        code="A1",
        severity=Severity.ERROR,
        message="'x': first at line 9",
        path="a[7].b",
        file="x.yaml",
        line=10,
        column=2,
    )
    other = SarifResult(
        code="A1",
        severity=Severity.ERROR,
        message="'y': first at line 3",
        path="a[0].b",
        file="x.yaml",
        line=4,
        column=2,
    )
    assert _prints(first) == _prints(moved)
    assert _prints(first) != _prints(other)


def test_equal_findings_of_a_run_are_told_apart() -> None:
    finding = SarifResult(code="A1", severity=Severity.ERROR, message="same", path="a", file="x.yaml", line=4)
    one, two = _prints(finding, finding)
    assert (one[:64], one[-2:], two[-2:]) == (two[:64], ":1", ":2")
