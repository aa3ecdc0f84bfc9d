"""Correct what has one right answer: find the corrections, make them in the text of a file, and show or write them.

Every other byte of a file stays as it is. Each edit is checked: the new text must mean exactly the old document with
the one change, or the edit is not made.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from keyferry._core.documents import Document, read_document
from keyferry._core.files import DistrustedError, open_path
from keyferry._core.json import dumps
from keyferry._core.paths import Path, format_path
from keyferry._core.secrets import MASK, printable
from keyferry._core.values import Value, field
from keyferry.api.clientauthentication.v1 import API_VERSION as EXEC_V1
from keyferry.api.kubeletconfig.v1 import API_VERSION as CONFIG_V1
from keyferry.errors import Detail, DocumentError, EnvironmentProblem, MatchError
from keyferry.images.config.refusals import respelt
from keyferry.images.match import Pattern, parse_pattern
from keyferry.lint.code import Finding
from keyferry.lint.kinds import patterns
from keyferry.lint.report import LintReport
from keyferry.lint.secrets import visible_lines
from keyferry.lint.source import SourceFile
from keyferry.show.writer import style

# A correction may uncover another problem: without its scheme, a pattern may have a wildcard.
_MAX_ROUNDS = 8
_OF_PATTERNS: dict[str, Callable[[Pattern], str]] = {
    "KF150": patterns.without_scheme,
    "KF151": patterns.without_final_wildcard,
    "KF152": patterns.in_lower_case,
    "KF153": patterns.without_tag,
    "KF156": patterns.without_user_info,
    "KF158": patterns.without_final_dot,
    "KF160": patterns.with_hub_name,
    "KF169": patterns.with_chinese_domain,
}
_OLD_CONFIG, _UNKNOWN, _DURATION, _NO_MODE = "KF179", "KF107", "KF110", "KF225"
_WRONG_TYPE = ("KF109", "KF203")
# What keyferry-federate needs, whatever stands there: a token that is passed on is kept for itself alone.
_FIXED_TEXTS = {_OLD_CONFIG: CONFIG_V1, "KF670": "Token", "KF676": "0s"}
# Every code that may have a correction.
FIXABLE_CODES = frozenset({*_OF_PATTERNS, *_FIXED_TEXTS, _UNKNOWN, _DURATION, _NO_MODE, *_WRONG_TYPE})
_DAYS = re.compile(r"([0-9]{1,4})d")
# What client-go assumes in v1beta1, where the field may be missing.
_MODE = ("interactiveMode", "IfAvailable")
_MISSING = object()


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
    source: SourceFile, lint: Callable[[SourceFile], LintReport], is_wanted: Callable[[Finding], bool]
) -> FixedFile:
    """Return the file with all wanted findings corrected that have one right answer.

    The new text is linted after each round. A round after which Kubernetes would refuse a file that it accepted
    before is not kept.
    """
    current, report = source, lint(source)
    for _ in range(_MAX_ROUNDS):
        new = SourceFile.parse(source.path, _correct_file(current, filter(is_wanted, report.findings)))
        if new.data == current.data:
            break
        linted = lint(new)
        if report.accepted and not linted.accepted:
            break
        current, report = new, linted
    return FixedFile(path=source.path, before=source.data, after=current.data)


def count_fixable(source: SourceFile, findings: Iterable[Finding]) -> int:
    """Return how many findings of one file have one right answer."""
    return sum(1 for _ in _find_corrections(source, findings))


def _correct_file(source: SourceFile, findings: Iterable[Finding]) -> bytes:
    # One for each place: the next round sees the others again.
    found = {correction.at: correction for correction in reversed([*_find_corrections(source, findings)])}
    if source.document is None or not found:
        return source.data
    return _apply_corrections(source.data, source.document, found.values())


# Which findings have one right answer, and what it is.


class TextChange(StrEnum):
    """How a correction changes a document."""

    SET = "set"  # a scalar gets another text
    QUOTE = "quote"  # a scalar becomes a string
    RENAME = "rename"  # a key gets another name
    INSERT = "insert"  # an object gets a field
    REMOVE = "remove"  # an entry leaves its list, as its new text is there already


class Correction(Value):
    """The right answer to a finding: the path of the value, and its new text, name or field.

    ``text`` is the new text, the new name, or the value of the new field ``field``. Nothing is in it for a scalar
    that only needs quotes.
    """

    at: Path
    change: TextChange
    text: str = ""
    field: str = ""


def _find_corrections(source: SourceFile, findings: Iterable[Finding]) -> Iterator[Correction]:
    """Yield the corrections of those findings of one file that have one right answer."""
    if source.document is None:
        return
    document = source.document.value
    paths = {format_path(path): path for path in source.document.positions}
    made: dict[tuple[Path, str], Path] = {}
    for finding in findings:
        at = paths.get(finding.path) if finding.file == source.path else None
        correction = _correct(finding, at, document) if at else None
        if correction is not None:
            yield _without_repetition(correction, document, made)


def _without_repetition(
    correction: Correction, document: object, made: dict[tuple[Path, str], Path]
) -> Correction:
    """Return the removal of a list's entry whose new text the list has already, or has from an earlier correction."""
    at, text = correction.at, correction.text
    entries = _value_at(document, at[:-1])
    if correction.change is not TextChange.SET or not isinstance(entries, list):
        return correction
    if text in entries or made.setdefault((at[:-1], text), at) != at:
        return Correction(at=at, change=TextChange.REMOVE)
    return correction


def _correct(finding: Finding, at: Path, document: object) -> Correction | None:
    value = _value_at(document, at)
    if finding.code in _WRONG_TYPE:
        is_unquoted = finding.detail is Detail.SCALAR_FOR_TEXT
        return Correction(at=at, change=TextChange.QUOTE) if is_unquoted else None
    if finding.code == _NO_MODE:
        return _with_mode(at, value)
    if finding.code == _UNKNOWN:
        name = respelt(finding.path)
        is_free = isinstance(parent := _value_at(document, at[:-1]), dict) and name not in parent
        return Correction(at=at, change=TextChange.RENAME, text=name) if name and is_free else None
    text = _new_text(finding.code, value) if isinstance(value, str) else ""
    return Correction(at=at, change=TextChange.SET, text=text) if text and text != value else None


def _new_text(code: str, value: str) -> str:
    if code in _FIXED_TEXTS:
        return _FIXED_TEXTS[code]
    if code == _DURATION:
        days = _DAYS.fullmatch(value)
        return f"{int(days[1]) * 24}h" if days else ""
    if code not in _OF_PATTERNS:
        return ""
    try:
        return _OF_PATTERNS[code](parse_pattern(value))
    except MatchError:
        return ""


def _with_mode(at: Path, value: object) -> Correction | None:
    if not isinstance(value, dict) or value.get("apiVersion") != EXEC_V1 or _MODE[0] in value:
        return None
    return Correction(at=at, change=TextChange.INSERT, text=_MODE[1], field=_MODE[0])


def _value_at(document: object, at: Path) -> object:
    """Return the value at a path; a value that no document has if there is none."""
    for step in at:
        if isinstance(document, dict) and isinstance(step, str):
            document = document.get(step, _MISSING)
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            return _MISSING
    return document


# Corrections in the text of a file.

_QUOTED = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'"""
_KEY = re.compile(rf"(?P<key>{_QUOTED}|[^\s:,\[\]{{}}\"'][^:\n]*?)(?P<colon>[ \t]*:[ \t]*)")
_BLOCK_SCALAR = re.compile(rf"{_QUOTED}|[^\s\"'\[\]{{}}&*!|>#][^\n\r]*?(?=[ \t]+#|[ \t]*\r?(?:\n|\Z))")
_FLOW_SCALAR = re.compile(rf"{_QUOTED}|[^\s\"'\[\]{{}},&*!|>#][^\n\r,\[\]{{}}]*?(?=[ \t]*[,\]}}\r\n])")
_COMMA = re.compile(r"\s*,\s*")
_ODD_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]|\r(?!\n)")
# What a text becomes, and where: from, to, replacement.
_Edit = tuple[int, int, str]


def _apply_corrections(data: bytes, document: Document, corrections: Iterable[Correction]) -> bytes:
    """Return *data* with all corrections that can be made in its text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    if _ODD_BREAKS.search(text):
        return data  # the numbers of lines depend on the parser
    # From the end to the beginning, so that the positions of the others stay.
    ordered = sorted(corrections, key=lambda each: _place(document, each.at), reverse=True)
    at_once = _apply_all(text, document, ordered)
    return (_apply_each(text, document, ordered) if at_once is None else at_once).encode("utf-8")


def _apply_all(text: str, document: Document, corrections: list[Correction]) -> str | None:
    """Return the text with the most likely edit for each correction; None if it does not mean what it should."""
    whole = copy.deepcopy(document.value)
    changed = text
    for correction in corrections:
        edit = next(_edits(text, document, correction), None)
        if edit is None:
            return None
        start, end, new = edit
        changed = changed[:start] + new + changed[end:]
        _change(whole, correction, text[start:end])
    return changed if _means(changed, whole) else None


def _apply_each(text: str, document: Document, corrections: list[Correction]) -> str:
    """Return the text with those corrections for which one of their edits means what it should."""
    value = document.value
    for correction in corrections:
        for start, end, new in _edits(text, document, correction):
            changed, whole = text[:start] + new + text[end:], copy.deepcopy(value)
            _change(whole, correction, text[start:end])
            if _means(changed, whole):
                text, value = changed, whole
                break
    return text


def _place(document: Document, at: Path) -> tuple[int, int]:
    position = document.position(at)
    return position.line, position.column


def _means(text: str, wanted: object) -> bool:
    try:
        return read_document(text.encode("utf-8")).value == wanted
    except DocumentError:
        return False


def _change(whole: object, correction: Correction, old: str) -> None:
    """Change a document; *old* is the text of the scalar, which it also is once it has quotes."""
    parent, last = _value_at(whole, correction.at[:-1]), correction.at[-1]
    target = _value_at(whole, correction.at)
    if correction.change is TextChange.REMOVE and isinstance(parent, list):
        del parent[last]  # type: ignore[arg-type] # the last step is an index of it
    elif correction.change is TextChange.INSERT and isinstance(target, dict):
        target[correction.field] = correction.text
    elif correction.change is TextChange.RENAME and isinstance(parent, dict):
        parent[correction.text] = parent.pop(last)
    elif isinstance(parent, (dict, list)):
        parent[last] = correction.text or old  # type: ignore[index] # the last step is a key or an index of it


def _edits(text: str, document: Document, correction: Correction) -> Iterator[_Edit]:
    if correction.change is TextChange.INSERT:
        yield from _insertions(text, document, correction)
    elif correction.change is TextChange.REMOVE:
        yield from _removals(text, document, correction)
    elif correction.change is TextChange.RENAME:
        key = _KEY.match(text, _offset(text, document, correction.at))
        if key:
            yield *key.span("key"), _styled(key["key"], correction.text)
    else:
        for start, end in _scalars(text, document, correction.at):
            old = text[start:end]
            if correction.change is TextChange.QUOTE:
                yield start, end, dumps(old)
            else:
                yield start, end, _styled(old, correction.text)
                yield start, end, dumps(correction.text)


def _scalars(text: str, document: Document, at: Path) -> Iterator[tuple[int, int]]:
    """Yield where the scalar at a path may begin and end, the most likely first."""
    start = _offset(text, document, at)
    if isinstance(at[-1], str):
        key = _KEY.match(text, start)
        if key is None:
            return
        start = key.end()
    value = _value_at(document.value, at)
    found = filter(None, (style.match(text, start) for style in (_BLOCK_SCALAR, _FLOW_SCALAR)))
    spans = {match.span(): match[0] for match in found}
    # In flow style a scalar ends at a comma, which may also be part of a scalar in block style.
    yield from sorted(spans, key=lambda span: (spans[span] != value, span))


def _insertions(text: str, document: Document, correction: Correction) -> Iterator[_Edit]:
    """Yield a field before the first one of an object: on a line of its own, or on the same line."""
    target = _value_at(document.value, correction.at)
    first = next(iter(target), None) if isinstance(target, dict) else None
    if first is None or (*correction.at, first) not in document.positions:
        return
    at = _offset(text, document, (*correction.at, first))
    line = text.rfind("\n", 0, at) + 1
    before = text[line:at]
    end = "\r\n" if text[:line].endswith("\r\n") else "\n"
    indent = re.sub(r"\S", " ", before)
    quoted = f"{dumps(correction.field)}: {dumps(correction.text)}"
    yield at, at, f"{correction.field}: {correction.text}{end}{indent}"
    if not before.strip():
        yield at, at, f"{quoted},{end}{indent}"
    yield at, at, f"{correction.field}: {correction.text}, "
    yield at, at, f"{quoted}, "


def _removals(text: str, document: Document, correction: Correction) -> Iterator[_Edit]:
    """Yield an entry's line, or the entry with a comma beside it; a line with a comment stays."""
    start = _offset(text, document, correction.at)
    line, end = text.rfind("\n", 0, start) + 1, text.find("\n", start) + 1 or len(text)
    if not text[line:start].strip(" \t-"):
        if "#" not in text[line:end]:
            yield line, end, ""
        return
    for begin, stop in _scalars(text, document, correction.at):
        after = _COMMA.match(text, stop)
        if after:
            yield begin, after.end(), ""
        before = text[:begin].rstrip()
        if before.endswith(","):
            yield len(before) - 1, stop, ""


def _offset(text: str, document: Document, at: Path) -> int:
    position = document.positions[at]
    start = 0
    for _ in range(position.line - 1):
        start = text.index("\n", start) + 1
    return start + position.column - 1


def _styled(old: str, new: str) -> str:
    """Return *new* in the quotes that *old* has."""
    if old.startswith('"'):
        return dumps(new)
    return "'" + new.replace("'", "''") + "'" if old.startswith("'") else new


# The new content: written to the file, or as a unified diff without values that may be secrets.

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def write_file(fixed: FixedFile) -> None:
    """Replace a file by its corrected content, atomically, with the same mode and owner.

    Raises EnvironmentProblem if the file is not a regular file with one name, cannot be written, or has changed since
    it was read.
    """
    try:
        folder, left = open_path(fixed.path)
        with folder.descend(*left[:-1]) as opened:
            is_done = bool(left) and opened.exchange(left[-1], fixed.before, fixed.after)
    except DistrustedError as error:
        raise EnvironmentProblem(f"{fixed.path} is not corrected: {error.strerror}") from None
    except OSError as error:
        raise EnvironmentProblem(f"{fixed.path} cannot be written: {error.strerror}") from None
    if not is_done:
        raise EnvironmentProblem(f"{fixed.path} is not corrected: it has changed since it was read")


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
    from difflib import SequenceMatcher

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
