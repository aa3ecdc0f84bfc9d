"""Reports of the conformance kit as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keyferry._core.secrets import printable
from keyferry._core.severity import Severity
from keyferry.kit.codes.catalogue import Check
from keyferry.kit.report import Report, ReportedViolation, Result, Status
from keyferry.show.text import Mark, display_width, fold, mark, wrap
from keyferry.show.writer import style

_MARKS = {Severity.ERROR: Mark.NO, Severity.WARNING: Mark.WARNING, Severity.INFO: Mark.INFO}


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
        yield from ["", "fix this first:", *_result(result)]
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
        yield from _result(result)
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
        yield from wrap(found[0], f"{reason}{_others(found[1:])}")


def _others(codes: list[str]) -> str:
    return f" (also {', '.join(codes)})" if codes else ""


def listing(checks: Iterable[Check]) -> Iterator[str]:
    """Yield the explanation of each check."""
    for check in checks:
        yield f"{style(check.code, 'bold')}  {check.severity}: {check.title}"
        yield from wrap("why", check.why)
        yield from wrap("change", check.fix)
        yield ""


def _result(result: Result) -> Iterator[str]:
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
