"""Corrections in the text of a YAML or JSON file; every other byte stays as it is.

Each edit is checked: the new text must mean exactly the old document with the one change, or the edit is not made.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator

from keyferry._core.documents import Document, read_document
from keyferry._core.json import dumps
from keyferry._core.paths import Path
from keyferry.errors import DocumentError
from keyferry.lint.fixes.corrections import Correction, TextChange, value_at

__all__ = ["apply_corrections"]

_QUOTED = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'"""
_KEY = re.compile(rf"(?P<key>{_QUOTED}|[^\s:,\[\]{{}}\"'][^:\n]*?)(?P<colon>[ \t]*:[ \t]*)")
_BLOCK_SCALAR = re.compile(rf"{_QUOTED}|[^\s\"'\[\]{{}}&*!|>#][^\n\r]*?(?=[ \t]+#|[ \t]*\r?(?:\n|\Z))")
_FLOW_SCALAR = re.compile(rf"{_QUOTED}|[^\s\"'\[\]{{}},&*!|>#][^\n\r,\[\]{{}}]*?(?=[ \t]*[,\]}}\r\n])")
_COMMA = re.compile(r"\s*,\s*")
_ODD_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]|\r(?!\n)")
# What a text becomes, and where: from, to, replacement.
_Edit = tuple[int, int, str]


def apply_corrections(data: bytes, document: Document, corrections: Iterable[Correction]) -> bytes:
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
    parent, last = value_at(whole, correction.at[:-1]), correction.at[-1]
    target = value_at(whole, correction.at)
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
    value = value_at(document.value, at)
    found = filter(None, (style.match(text, start) for style in (_BLOCK_SCALAR, _FLOW_SCALAR)))
    spans = {match.span(): match[0] for match in found}
    # In flow style a scalar ends at a comma, which may also be part of a scalar in block style.
    yield from sorted(spans, key=lambda span: (spans[span] != value, span))


def _insertions(text: str, document: Document, correction: Correction) -> Iterator[_Edit]:
    """Yield a field before the first one of an object: on a line of its own, or on the same line."""
    target = value_at(document.value, correction.at)
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
