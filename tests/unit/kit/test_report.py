"""Reports as documents: the fields that programs rely on."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from keyferry.kit.checks.catalogue import CHECKS
from keyferry.kit.plugin import PluginKind
from keyferry.kit.report import Report, ReportedViolation, Result, Status, to_document, to_junit

BROKEN = ReportedViolation(
    experiment="good", found="exit \x1b[31m1 \ud800 <&>", expected="exit 0", repeat="printf '' | plugin"
)


def report() -> Report:
    """One result of every kind."""
    return Report(
        plugin="/plugin",
        kind=PluginKind.IMAGE,
        api_version="credentialprovider.kubelet.k8s.io/v1",
        results=(
            Result(check=CHECKS["KP101"], status=Status.FAILED, broken=(BROKEN,)),
            Result(check=CHECKS["KP108"], status=Status.FAILED, broken=(BROKEN,)),
            Result(check=CHECKS["KP110"], status=Status.FAILED, broken=(BROKEN,)),
            Result(check=CHECKS["KP106"], status=Status.PASSED),
            Result(check=CHECKS["KP302"], status=Status.UNCHECKED, reason="no /proc"),
            Result(check=CHECKS["KP303"], status=Status.SKIPPED, reason="excluded by --skip"),
        ),
        runs=49,
        seconds=1.25,
        notes=("a note",),
    )


def test_the_fields_of_the_document_are_stable() -> None:
    """Scripts read these names."""
    document = to_document(report())
    assert list(document) == [
        "apiVersion",
        "kind",
        "keyferry",
        "plugin",
        "protocol",
        "pluginApiVersion",
        "runs",
        "seconds",
        "notes",
        "summary",
        "results",
    ]
    assert (document["apiVersion"], document["kind"]) == ("keyferry.dev/v1alpha1", "PluginReport")
    assert document["summary"] == {
        "errors": 1,
        "warnings": 1,
        "infos": 1,
        "passed": 1,
        "notChecked": 1,
        "skipped": 1,
    }
    results = document["results"]
    assert isinstance(results, list)
    assert [sorted(result) for result in results] == [
        ["broken", "code", "fix", "severity", "status", "title", "why"],
        ["broken", "code", "fix", "severity", "status", "title", "why"],
        ["broken", "code", "fix", "severity", "status", "title", "why"],
        ["code", "severity", "status", "title"],
        ["code", "reason", "severity", "status", "title"],
        ["code", "reason", "severity", "status", "title"],
    ]
    assert [result["status"] for result in results[4:]] == ["notChecked", "skipped"]
    assert sorted(results[0]["broken"][0]) == ["expected", "experiment", "found", "repeat"]


def test_junit_is_valid_xml_with_failures_and_skips() -> None:
    """Errors and warnings fail, infos only if they are to; what XML cannot hold is replaced."""
    suite = ET.fromstring(to_junit(report()))[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "2",
        "errors": "0",
        "skipped": "2",
    }
    reasons = [skipped.get("message") for skipped in suite.findall("testcase/skipped")]
    assert reasons == ["no /proc", "excluded by --skip"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "printf '' | plugin" in (failure.text or "")
    assert "<&>" in failure.get("message", "")
    assert len(suite.findall("testcase/system-out")) == 1
    strict = ET.fromstring(to_junit(report(), strict=True))[0]
    assert strict.get("failures") == "3"


def test_failures_are_counted_by_severity() -> None:
    """Only errors make a plugin unclean."""
    assert report().failed_codes == ("KP101", "KP108", "KP110")
    assert not report().is_clean
