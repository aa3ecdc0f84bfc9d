"""Correct one file in memory, and lint it again after every round."""

from __future__ import annotations

from collections.abc import Callable

from keyferry._core.documents import read_document
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError
from keyferry.lint.fixes.corrections import find_corrections
from keyferry.lint.fixes.edit import apply_corrections
from keyferry.lint.report import Finding, LintReport

__all__ = ["FixedFile", "count_fixable", "fix_file"]

# A correction may uncover another problem: without its scheme, a pattern may have a wildcard.
_MOST_ROUNDS = 8


class FixedFile(Value):
    """A file before and after its corrections."""

    path: str
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)

    @property
    def is_changed(self) -> bool:
        """Whether anything was corrected."""
        return self.before != self.after


def fix_file(
    path: str, data: bytes, lint: Callable[[bytes], LintReport], is_wanted: Callable[[Finding], bool]
) -> FixedFile:
    """Return the file with all wanted findings corrected that have one right answer.

    The new text is linted after each round. A round after which Kubernetes would refuse a file that it accepted
    before is not kept.
    """
    current, report = data, lint(data)
    for _ in range(_MOST_ROUNDS):
        new = _correct(path, current, report, is_wanted)
        if new == current:
            break
        linted = lint(new)
        if report.accepted and not linted.accepted:
            break
        current, report = new, linted
    return FixedFile(path=path, before=data, after=current)


def count_fixable(path: str, data: bytes, findings: tuple[Finding, ...]) -> int:
    """Return how many findings of one file have one right answer."""
    try:
        document = read_document(data)
    except DocumentError:
        return 0
    return sum(1 for _ in find_corrections(_of_file(path, findings), document))


def _correct(path: str, data: bytes, report: LintReport, is_wanted: Callable[[Finding], bool]) -> bytes:
    try:
        document = read_document(data)
    except DocumentError:
        return data
    wanted = tuple(filter(is_wanted, _of_file(path, report.findings)))
    # One for each place: the next round sees the others again.
    found = {correction.at: correction for _, correction in reversed([*find_corrections(wanted, document)])}
    return apply_corrections(data, document, found.values())


def _of_file(path: str, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.file == path)
