"""The report of a test, one result for each check: as values, as text, as JSON and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from keyferry import __version__
from keyferry._core.secrets import printable
from keyferry._core.severity import SEVERITIES, Severity, is_failure
from keyferry._core.values import Value, replace
from keyferry.kit.checks.check import Check, Code
from keyferry.kit.plugin import PluginKind
from keyferry.show import reports
from keyferry.show.documents import make_document
from keyferry.show.folding import display_width
from keyferry.show.reports import Case, CaseOutcome
from keyferry.show.text import Mark, fold, mark, wrap
from keyferry.show.writer import style

__all__ = [
    "Report",
    "ReportedViolation",
    "Result",
    "Status",
    "code_lines",
    "report_lines",
    "to_document",
    "to_junit",
]

_MARKS = {Severity.ERROR: Mark.NO, Severity.WARNING: Mark.WARNING, Severity.INFO: Mark.INFO}


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

    def at_least(self, severity: Severity) -> Report:
        """Return the report without the failures that are less severe."""
        kept = SEVERITIES[: SEVERITIES.index(severity) + 1]
        results = tuple(
            result
            for result in self.results
            if result.status is not Status.FAILED or result.check.severity in kept
        )
        return replace(self, results=results)

    @property
    def summary(self) -> str:
        """The numbers of failures, of other checks and of runs, in one line."""
        counts = [
            f"{number} {severity if number == 1 else severity + 's'}"
            for severity in SEVERITIES
            if (number := len(self.failures(severity)))
        ]
        unchecked = sum(bool(result.reason) and result.is_asked_for for result in self.results)
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        found = ", ".join(counts) or "no failures"
        passed = self.count(Status.PASSED)
        return f"{found}; {passed} passed, {unchecked} not checked; {runs} in {self.seconds:.1f} s"

    @property
    def failed_codes(self) -> tuple[str, ...]:
        """The codes of all checks that failed, of any severity."""
        return tuple(result.check.code for result in self.results if result.status is Status.FAILED)

    @property
    def is_clean(self) -> bool:
        """Whether no check of severity error failed."""
        return not self.failures(Severity.ERROR)


def report_lines(report: Report, *, is_verbose: bool) -> Iterator[str]:
    """Yield a block for each failed check, the checks that were not made by reason, and the notes.

    A failure that is to be fixed first is shown alone. With *is_verbose*, yield all blocks, a line for each check that
    passed, and one for each that was not made.
    """
    yield from fold(f"{printable(report.plugin)}: {report.kind} plugin, {report.api_version}", rest="  ")
    # Checks that --only does not select are not listed; those of --skip are.
    asked_for = [result for result in report.results if result.is_asked_for]
    first = [result for result in asked_for if result.check.code == report.fix_first]
    for result in first:
        yield from ["", "fix this first:", *_result_lines(result)]
        asked_for.remove(result)
    if first and not is_verbose:
        yield from fold(_rest(asked_for))
    else:
        yield from _results(asked_for, is_verbose=is_verbose)
    if report.notes:
        yield ""
        yield from (line for note in report.notes for line in fold(f"note: {printable(note)}", rest="  "))


def _rest(results: Iterable[Result]) -> str:
    """Return what is left out after the failure that is to be fixed first."""
    codes = [result.check.code for result in results if result.status is Status.FAILED]
    unchecked = sum(bool(result.reason) for result in results)
    failures = f"{len(codes)} more failed ({', '.join(codes)})" if codes else "none failed"
    return (
        f"of the other checks, {failures} and {unchecked} were not made, some because of this; -v lists all"
    )


def _results(asked_for: list[Result], *, is_verbose: bool) -> Iterator[str]:
    shown = [result for result in asked_for if is_verbose or result.status is Status.FAILED]
    if shown:
        yield ""
    for result in shown:
        yield from _result_lines(result)
    unchecked = [] if is_verbose else list(_unchecked(asked_for))
    # The block of a failed check ends with an empty line.
    yield from ["", *unchecked] if unchecked and not shown else unchecked


def _unchecked(results: Iterable[Result]) -> Iterator[str]:
    """Yield the codes of the checks that were not made, one block for each reason."""
    codes: dict[str, list[str]] = {}
    for result in results:
        if result.reason:
            codes.setdefault(result.reason, []).append(result.check.code)
    if codes:
        yield "not checked:"
    for reason, found in codes.items():
        others = f" (also {', '.join(found[1:])})" if found[1:] else ""
        yield from wrap(found[0], reason + others)


def code_lines(codes: Iterable[Code]) -> Iterator[str]:
    """Yield the explanation of each code."""
    for code in codes:
        yield f"{style(code.code, 'bold')}  {code.severity}: {code.title}"
        yield from wrap("why", code.why)
        yield from wrap("change", code.fix)
        yield ""


def _result_lines(result: Result) -> Iterator[str]:
    check = result.check
    meaning = Mark.SKIPPED if result.reason else Mark.YES
    if result.status is Status.FAILED:
        meaning = _MARKS[check.severity]
    note = f"  (not checked: {printable(result.reason)})" if result.reason else ""
    first = f"{mark(meaning)} {check.code}  "
    yield from fold(f"{check.title}{note}", first, " " * display_width(first))
    for broken in result.broken:
        yield from _block(broken)
    if result.broken:
        yield from wrap("why", check.why)
        yield from wrap("change", check.fix)
        yield ""


def _block(broken: ReportedViolation) -> Iterator[str]:
    yield from wrap("request", broken.experiment)
    yield from wrap("found", broken.found)
    yield from wrap("expected", broken.expected)
    # Always on one line, so that it can be copied.
    yield f"    {'repeat':<10}{printable(broken.repeat)}"


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
            **{
                str(status): report.count(status)
                for status in (Status.PASSED, Status.UNCHECKED, Status.SKIPPED)
            },
        },
        results=[_result_document(result) for result in report.results],
    )


def _result_document(result: Result) -> dict[str, object]:
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
    cases = [_case(report, result, strict=strict) for result in report.results]
    return reports.to_junit(f"keyferry plugin test {report.plugin}", cases, report.seconds)


def _case(report: Report, result: Result, *, strict: bool) -> Case:
    check = result.check
    case = Case(group=f"keyferry.{report.kind}", name=f"{check.code} {check.title}")
    if result.status in (Status.SKIPPED, Status.UNCHECKED):
        return replace(case, outcome=CaseOutcome.SKIPPED, message=result.reason)
    if result.status is Status.PASSED:
        return case
    if is_failure(check.severity, strict=strict):
        case = replace(case, outcome=CaseOutcome.FAILED, message=result.broken[0].found, kind=check.severity)
    return replace(case, text=_case_text(result))


def _case_text(result: Result) -> str:
    blocks = [
        f"{printable(one.experiment)}\n  found:    {printable(one.found)}\n"
        f"  expected: {printable(one.expected)}\n  repeat:   {printable(one.repeat)}"
        for one in result.broken
    ]
    return "\n".join([*blocks, f"why: {result.check.why}", f"what to do: {result.check.fix}"])
