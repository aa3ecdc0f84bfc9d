"""Lines about the pull records and the disk."""

from __future__ import annotations

import pytest

from keyferry._core.severity import Severity
from keyferry.doctor.facts import DiskFacts, RecordsFacts
from keyferry.doctor.health import HealthLevel, HealthLine, Hints
from keyferry.doctor.node_checks import check_disk, check_records
from keyferry.lint.code import Finding
from keyferry.lint.report import LintReport

FACTS = RecordsFacts(root="/r", policy="AlwaysVerify", policy_from="its file")


def lines(facts: RecordsFacts | None, *, is_root: bool = True) -> list[HealthLine]:
    return list(check_records(facts, Hints(), is_root=is_root))


def test_no_facts_no_lines() -> None:
    assert lines(None) == []
    assert list(check_disk(None)) == []


@pytest.mark.parametrize(
    ("facts", "level", "text"),
    [
        (FACTS, HealthLevel.OK, "AlwaysVerify (its file)"),
        (
            RecordsFacts(root="/r", policy="X", policy_from="its file", policy_problem="unknown policy"),
            HealthLevel.PROBLEM,
            "its file: unknown policy",
        ),
        (
            RecordsFacts(root="/r", policy="X", policy_from="f", is_off=True),
            HealthLevel.OK,
            "every pod may use every image",
        ),
    ],
)
def test_the_policy_comes_first(facts: RecordsFacts, level: HealthLevel, text: str) -> None:
    first = lines(facts)[0]
    assert (first.level, text in first.text) == (level, True)


def test_a_folder_is_absent_unreadable_or_counted() -> None:
    assert "does not exist" in lines(FACTS)[1].text
    closed = RecordsFacts(root="/r", policy="X", policy_from="f", unreadable="Permission denied")
    assert (lines(closed)[1].level, lines(closed)[1].next_command) == (HealthLevel.UNKNOWN, "")
    assert lines(closed, is_root=False)[1].next_command == "sudo keyferry doctor"


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        (Severity.ERROR, HealthLevel.PROBLEM),
        (Severity.WARNING, HealthLevel.WARNING),
        (Severity.INFO, HealthLevel.OK),
    ],
)
def test_findings_of_lint_give_the_level(severity: Severity, level: HealthLevel) -> None:
    report = LintReport(
        path="/r", kubernetes="1.37", findings=(Finding(code="KF400", severity=severity, message="m"),)
    )
    found = lines(RecordsFacts(root="/r", policy="X", policy_from="f", report=report, count=3))[1]
    assert (found.level, found.text.startswith("/r/image_manager has 3 records")) == (level, True)


def test_errors_and_warnings_are_counted_on_their_own() -> None:
    kinds = (Severity.ERROR, Severity.WARNING, Severity.WARNING)
    report = LintReport(
        path="/r",
        kubernetes="1.37",
        findings=tuple(Finding(code="KF400", severity=kind, message="m") for kind in kinds),
    )
    _, *found = lines(RecordsFacts(root="/r", policy="X", policy_from="f", report=report, count=3))
    assert [(line.level, line.count) for line in found] == [
        (HealthLevel.PROBLEM, 1),
        (HealthLevel.WARNING, 2),
    ]


@pytest.mark.parametrize(("free", "level"), [(10, HealthLevel.OK), (9, HealthLevel.WARNING)])
def test_little_space_is_a_warning(free: int, level: HealthLevel) -> None:
    (line,) = check_disk(DiskFacts(path="/r", free=free << 20, total=100 << 20))
    assert (line.level, f"{free}.0 MiB of 100.0 MiB" in line.text) == (level, True)
    (line,) = check_disk(DiskFacts(path="/r", free=5, total=10))
    assert "5 B of 10 B are free (50 %)" in line.text
