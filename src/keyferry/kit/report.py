"""The report of a test as values: one result for each check."""

from __future__ import annotations

from enum import StrEnum

from keyferry import __version__
from keyferry._core.secrets import printable
from keyferry._core.severity import SEVERITIES, Severity, is_failure
from keyferry._core.values import Value, replace
from keyferry.kit.codes.catalogue import Check
from keyferry.kit.plugin_kind import PluginKind
from keyferry.show.documents import make_document
from keyferry.show.reports import Case, CaseOutcome

__all__ = ["Report", "ReportedViolation", "Result", "Status", "to_document", "to_junit"]


class Status(StrEnum):
    """The status of a check: *unchecked* if its premise did not hold, *skipped* if an option excludes it."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "notChecked"
    SKIPPED = "skipped"


class ReportedViolation(Value):
    """One violation of a requirement, without secrets, and the command that repeats it."""

    experiment: str
    found: str
    expected: str
    repeat: str


class Result(Value):
    """The result of one check; *reason* is why it was not made; *is_asked_for* is false if ``--only`` excludes it."""

    check: Check
    status: Status
    broken: tuple[ReportedViolation, ...] = ()
    reason: str = ""
    is_asked_for: bool = True


class Report(Value):
    """All results; *notes* describe the conditions of the test.

    *fix_first* is the code of the failure that makes other results meaningless, if there is one.
    """

    plugin: str
    kind: PluginKind
    api_version: str
    results: tuple[Result, ...]
    runs: int
    seconds: float
    notes: tuple[str, ...] = ()
    fix_first: str = ""

    def failures(self, severity: Severity) -> tuple[Result, ...]:
        """Return the checks of one severity that failed."""
        return tuple(
            result
            for result in self.results
            if result.status is Status.FAILED and result.check.severity is severity
        )

    def count(self, status: Status) -> int:
        """Return the number of checks with *status*."""
        return sum(result.status is status for result in self.results)

    @property
    def failed_codes(self) -> tuple[str, ...]:
        """The codes of all checks that failed, of any severity."""
        return tuple(result.check.code for result in self.results if result.status is Status.FAILED)

    @property
    def is_clean(self) -> bool:
        """Whether no check of severity error failed."""
        return not self.failures(Severity.ERROR)


_COUNTED = (Status.PASSED, Status.UNCHECKED, Status.SKIPPED)


def to_document(report: Report) -> dict[str, object]:
    """Return the report as a JSON document."""
    return make_document(
        "PluginReport",
        keyferry=__version__,
        plugin=report.plugin,
        protocol=str(report.kind),
        pluginApiVersion=report.api_version,
        runs=report.runs,
        seconds=round(report.seconds, 3),
        notes=list(report.notes),
        **({"fixFirst": report.fix_first} if report.fix_first else {}),
        summary={
            **{f"{severity}s": len(report.failures(severity)) for severity in SEVERITIES},
            **{str(status): report.count(status) for status in _COUNTED},
        },
        results=[_result(result) for result in report.results],
    )


def _result(result: Result) -> dict[str, object]:
    document: dict[str, object] = {
        "code": result.check.code,
        "title": result.check.title,
        "severity": str(result.check.severity),
        "status": str(result.status),
    }
    if result.reason:
        document["reason"] = result.reason
    if result.broken:
        document["why"] = result.check.why
        document["fix"] = result.check.fix
        document["broken"] = [
            {"experiment": one.experiment, "found": one.found, "expected": one.expected, "repeat": one.repeat}
            for one in result.broken
        ]
    return document


def to_junit(report: Report, *, strict: bool = False) -> str:
    """Return the report as JUnit XML, one case for each check; an info is a failure only if *strict*."""
    from keyferry.show.reports import to_junit

    cases = [_case(report, result, strict=strict) for result in report.results]
    return to_junit(f"keyferry plugin test {report.plugin}", cases, report.seconds)


def _case(report: Report, result: Result, *, strict: bool) -> Case:
    check = result.check
    case = Case(group=f"keyferry.{report.kind}", name=f"{check.code} {check.title}")
    if result.status in (Status.SKIPPED, Status.UNCHECKED):
        return replace(case, outcome=CaseOutcome.SKIPPED, message=result.reason)
    if result.status is Status.PASSED:
        return case
    if is_failure(check.severity, strict=strict):
        case = replace(case, outcome=CaseOutcome.FAILED, message=result.broken[0].found, kind=check.severity)
    return replace(case, text=_text(result))


def _text(result: Result) -> str:
    blocks = [
        f"{printable(one.experiment)}\n  found:    {printable(one.found)}\n"
        f"  expected: {printable(one.expected)}\n  repeat:   {printable(one.repeat)}"
        for one in result.broken
    ]
    return "\n".join([*blocks, f"why: {result.check.why}", f"what to do: {result.check.fix}"])
