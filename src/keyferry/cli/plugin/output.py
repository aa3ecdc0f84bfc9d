"""Reports of the conformance kit as text."""

import sys
from collections.abc import Iterable, Iterator

from keyferry._core.secrets import printable
from keyferry.kit.codes.catalogue import Check
from keyferry.kit.report import Report, ReportedViolation, Result, Status
from keyferry.show.text import wrap
from keyferry.show.writer import style

_MARKS = {"passed": "✓", "error": "✗", "warning": "!", "info": "i", "skipped": "-"}
_PLAIN = {**_MARKS, "passed": "+", "error": "x"}
_STYLES = {"passed": "green", "error": "red", "warning": "yellow", "info": "cyan", "skipped": "dim"}


def report_lines(report: Report) -> Iterator[str]:
    """Yield a line for each check, a block for each violation, and the notes."""
    yield f"{printable(report.plugin)}: {report.kind} plugin, {report.api_version}"
    yield ""
    for result in report.results:
        # Checks that --only does not select are not listed; those of --skip are.
        if result.is_asked_for:
            yield from _result(result)
    if report.notes:
        yield ""
        yield from (f"note: {printable(note)}" for note in report.notes)


def listing(checks: Iterable[Check]) -> Iterator[str]:
    """Yield the explanation of each check."""
    for check in checks:
        yield f"{style(check.code, 'bold')}  {check.severity}: {check.title}"
        yield from wrap("why", check.why)
        yield from wrap("change", check.fix)
        yield ""


def _result(result: Result) -> Iterator[str]:
    check = result.check
    kind = check.severity if result.status is Status.FAILED else str(result.status)
    marks = _MARKS if _takes_marks() else _PLAIN
    note = f"  (not checked: {printable(result.reason)})" if result.status is Status.SKIPPED else ""
    yield f"{style(marks[kind], _STYLES[kind])} {check.code}  {check.title}{style(note, 'dim')}"
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


def _takes_marks() -> bool:
    """Return whether standard output can encode the marks."""
    try:
        "".join(_MARKS.values()).encode(sys.stdout.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
