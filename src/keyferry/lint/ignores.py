"""Comments that suppress findings: ``# keyferry: ignore KF151`` on the line itself, or alone on the line above.

Several codes are separated by commas. A reason may follow after ``:`` or ``--``. Errors are never suppressed: they stop
a kubelet or kubectl all the same. A code without effect is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keyferry._core.severity import Severity
from keyferry._core.values import Value, replace
from keyferry.lint.code import Code, Finding, in_order
from keyferry.lint.report import LintReport
from keyferry.lint.source import SourceFile

_COMMENT = re.compile(r"(?:^|(?<=\s))#\s*keyferry:\s*ignore\b(?P<codes>[^:#]*?)(?:(?::|--|#).*)?$")
_SEPARATOR = re.compile(r"[\s,]+")


KF050 = Code(
    "KF050",
    Severity.INFO,
    "an ignore comment has no effect",
    why=(
        "a comment '# keyferry: ignore CODE' applies to its own line, or to the next one if it stands alone; errors "
        "cannot be ignored, because they stop a kubelet or kubectl all the same"
    ),
    fix="remove the comment or the code, or correct it",
)


class _Ignore(Value):
    """One code of a comment: the position of the comment, and the line that it is about."""

    file: str
    line: int
    column: int
    target: int
    code: str

    def covers(self, finding: Finding) -> bool:
        """Return whether the comment is about *finding*."""
        place = (finding.file, finding.line, finding.code)
        return place == (self.file, self.target, self.code) and finding.severity is not Severity.ERROR


def apply_ignores(report: LintReport) -> LintReport:
    """Return *report* without the findings that comments suppress, and with those comments that have no effect."""
    ignores = [each for source in report.sources for each in _ignores(source)]
    if not ignores:
        return report
    suppressed = [each for each in report.findings if any(ignore.covers(each) for ignore in ignores)]
    useless = [_useless(each, report) for each in ignores if not any(map(each.covers, suppressed))]
    hidden = set(suppressed)
    kept = [each for each in report.findings if each not in hidden]
    kept += [each for each in useless if each is not None]
    return replace(report, findings=in_order(kept), suppressed=tuple(suppressed))


def _ignores(source: SourceFile) -> Iterator[_Ignore]:
    if b"keyferry:" not in source.data:
        return
    lines = source.data.decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        found = _COMMENT.search(line.rstrip("\r"))
        if found is None:
            continue
        is_alone = not line[: found.start()].strip()
        target = _next_content(lines, number) if is_alone else number
        codes = [code for code in _SEPARATOR.split(found["codes"].strip()) if code] or [""]
        for code in codes:
            yield _Ignore(
                file=source.path, line=number, column=found.start() + 1, target=target, code=code.upper()
            )


def _next_content(lines: list[str], number: int) -> int:
    """Return the number of the first line after *number* that is not a comment."""
    while number < len(lines) and lines[number].lstrip().startswith("#"):
        number += 1
    return number + 1


def _useless(ignore: _Ignore, report: LintReport) -> Finding | None:
    """Return the finding about a comment that suppresses nothing; None if it may do so on another machine."""
    from keyferry.lint.catalogue import CODES

    code = CODES.get(ignore.code)
    if code is not None and code.on_this_machine and code.severity is not Severity.ERROR:
        return None
    there = (each for each in report.findings if (each.file, each.line) == (ignore.file, ignore.target))
    if not ignore.code:
        message = "the comment names no code; write for example '# keyferry: ignore KF162'"
    elif code is None:
        message = f"{ignore.code!r} is not a code; 'keyferry lint --list' shows all"
    elif any(each.code == ignore.code for each in there):
        message = f"{ignore.code} is an error, which cannot be ignored"
    else:
        message = f"there is no {ignore.code} in line {ignore.target}; remove it from the comment"
    return KF050.of_file(ignore.file, message, ignore.line, ignore.column)
