"""SARIF from neutral values."""

from typing import Any

from keyferry._core.severity import Severity
from keyferry.show.sarif import SarifResult, SarifRule, to_sarif

RULES = (
    SarifRule("A1", Severity.ERROR, "one", "why one", "do one"),
    SarifRule("A2", Severity.INFO, "two", "why two", "do two"),
)


def test_a_finding_points_to_its_rule_and_place() -> None:
    finding = SarifResult("A2", Severity.INFO, "found", path="a.b", file="some folder/x.yaml", line=3)
    document: Any = to_sarif(RULES, [finding, SarifResult("A1", Severity.ERROR, "nowhere")])
    run = document["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["A1", "A2"]
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
