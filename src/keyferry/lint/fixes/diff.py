"""Two contents of a file as a unified diff, without values that may be secrets."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from keyferry._core.secrets import MASK, printable
from keyferry._core.values import Value
from keyferry.lint.fixes.rounds import FixedFile
from keyferry.lint.source import visible_lines
from keyferry.show.writer import style

__all__ = ["masked_diff"]

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class _Row(Value):
    """A line of a hunk: its mark, its text as it is shown, its numbers in both files, and whether that is all of it."""

    mark: str
    text: str
    old: int
    new: int
    is_whole: bool


def masked_diff(fixed: FixedFile, name: str, advice: str = "") -> Iterator[str]:
    """Yield the lines of the diff; the file is called *name* in it.

    It can be applied with ``patch``, unless a line that changes is masked; then the diff says so, with *advice*.
    """
    hunks = list(_hunks(fixed))
    if not all(row.is_whole for hunk in hunks for row in hunk):
        yield f"# a line that changes is masked ({MASK}): this diff is for reading{advice}"
    yield style(printable(f"--- a/{name}"), _COLOURS["-"])
    yield style(printable(f"+++ b/{name}"), _COLOURS["+"])
    for line in (line for hunk in hunks for line in _hunk_lines(hunk, fixed)):
        shown = printable(line, "\t")
        yield style(shown, _COLOURS[line[0]]) if line[0] in _COLOURS else shown


def _hunk_lines(hunk: list[_Row], fixed: FixedFile) -> Iterator[str]:
    old, new = (sum(row.mark != mark for row in hunk) for mark in "+-")
    # A side without lines has the number of the line before.
    yield f"@@ -{hunk[0].old + bool(old)},{old} +{hunk[0].new + bool(new)},{new} @@"
    ends = len(fixed.before.splitlines()), len(fixed.after.splitlines())
    for row in hunk:
        yield row.mark + row.text
        data, is_last = (
            (fixed.after, row.new + 1 == ends[1])
            if row.mark == "+"
            else (fixed.before, row.old + 1 == ends[0])
        )
        if is_last and not data.endswith(b"\n"):
            yield "\\ No newline at end of file"


def _hunks(fixed: FixedFile) -> Iterator[list[_Row]]:
    """Yield the hunks; a line that is masked and does not change divides them, as ``patch`` would not find it."""
    for group in _groups(fixed):
        hunk: list[_Row] = []
        for row in group:
            if row.mark != " " or row.is_whole:
                hunk.append(row)
                continue
            if any(each.mark != " " for each in hunk):
                yield hunk
            hunk = []
        if any(each.mark != " " for each in hunk):
            yield hunk


def _groups(fixed: FixedFile) -> Iterator[list[_Row]]:
    """Yield the changes with the lines around them; lines are compared as they are, and shown with secrets masked."""
    old, new = _Side(fixed.before), _Side(fixed.after)
    matcher = SequenceMatcher(None, fixed.before.splitlines(), fixed.after.splitlines(), autojunk=False)
    for group in matcher.get_grouped_opcodes():
        rows = []
        for tag, old_from, old_to, new_from, new_to in group:
            mark = " " if tag == "equal" else "-"
            rows += [old.row(mark, at, at, new_from + at - old_from) for at in range(old_from, old_to)]
            if tag != "equal":
                rows += [new.row("+", at, old_to, at) for at in range(new_from, new_to)]
        yield rows


class _Side:
    """One of the two contents: its lines as they are and as they are shown."""

    def __init__(self, data: bytes) -> None:
        self._written = data.decode("utf-8", "replace").split("\n")
        self._shown = visible_lines(data)

    def row(self, mark: str, at: int, old: int, new: int) -> _Row:
        """Return a line of this side, with the numbers that it has in both."""
        shown = self._shown[at]
        return _Row(
            mark=mark,
            text=shown,
            old=old,
            new=new,
            is_whole=shown == self._written[at] == printable(shown, "\t"),
        )
