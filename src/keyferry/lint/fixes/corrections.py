"""Which findings have one right answer, and what it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum

from keyferry._core.documents import Document
from keyferry._core.paths import Path, format_path
from keyferry._core.values import Value
from keyferry.api.clientauthentication.v1 import API_VERSION as EXEC_V1
from keyferry.api.kubeletconfig.v1 import API_VERSION as CONFIG_V1
from keyferry.errors import Detail, MatchError
from keyferry.images.config.refusals import respelt
from keyferry.images.match import Pattern, parse_pattern
from keyferry.lint.providers import unreachable
from keyferry.lint.providers.patterns import chinese_ecr
from keyferry.lint.report import Finding

__all__ = ["FIXABLE_CODES", "Correction", "TextChange", "find_corrections", "value_at"]

_OF_PATTERNS: dict[str, Callable[[Pattern], str]] = {
    "KF150": unreachable.without_scheme,
    "KF151": unreachable.without_final_wildcard,
    "KF152": unreachable.in_lower_case,
    "KF153": unreachable.without_tag,
    "KF156": unreachable.without_user_info,
    "KF158": unreachable.without_final_dot,
    "KF160": unreachable.with_hub_name,
    "KF169": chinese_ecr,
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


def find_corrections(
    findings: tuple[Finding, ...], document: Document
) -> Iterator[tuple[Finding, Correction]]:
    """Yield the findings of one file that have one right answer, each with it."""
    paths = {format_path(path): path for path in document.positions}
    made: dict[tuple[Path, str], Path] = {}
    for finding in findings:
        at = paths.get(finding.path)
        correction = _correct(finding, at, document.value) if at else None
        if correction is not None:
            yield finding, _without_repetition(correction, document.value, made)


def _without_repetition(
    correction: Correction, document: object, made: dict[tuple[Path, str], Path]
) -> Correction:
    """Return the removal of a list's entry whose new text the list has already, or has from an earlier correction."""
    at, text = correction.at, correction.text
    entries = value_at(document, at[:-1])
    if correction.change is not TextChange.SET or not isinstance(entries, list):
        return correction
    if text in entries or made.setdefault((at[:-1], text), at) != at:
        return Correction(at=at, change=TextChange.REMOVE)
    return correction


def _correct(finding: Finding, at: Path, document: object) -> Correction | None:
    value = value_at(document, at)
    if finding.code in _WRONG_TYPE:
        is_unquoted = finding.detail is Detail.SCALAR_FOR_TEXT
        return Correction(at=at, change=TextChange.QUOTE) if is_unquoted else None
    if finding.code == _NO_MODE:
        return _with_mode(at, value)
    if finding.code == _UNKNOWN:
        name = respelt(finding.path)
        is_free = isinstance(parent := value_at(document, at[:-1]), dict) and name not in parent
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


def value_at(document: object, at: Path) -> object:
    """Return the value at a path; a value that no document has if there is none."""
    for step in at:
        if isinstance(document, dict) and isinstance(step, str):
            document = document.get(step, _MISSING)
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            return _MISSING
    return document
