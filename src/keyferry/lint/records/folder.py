"""Lint a kubelet's pull records: report files that cannot be read and files that cannot be trusted."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from keyferry._core.clock import time_ns
from keyferry._core.documents import DocumentFormat, read_document
from keyferry._core.paths import format_path
from keyferry.api.kubeletconfig.records import (
    INTENT,
    RECORD,
    ImagePulledRecord,
    ImagePullIntent,
)
from keyferry.api.wire import Reader
from keyferry.errors import DocumentError, Kind, Problem, RecordError
from keyferry.lint.records.content import check_record
from keyferry.lint.records.files import check_entry, check_folder
from keyferry.lint.report import FileKind, Finding, LintReport, finding_of, place_of
from keyferry.lint.versions import LATEST
from keyferry.pulls.records.disk import MOST_BYTES
from keyferry.pulls.records.format import PREFIX, decode_intent, decode_record, file_name
from keyferry.pulls.records.store import FOLDER, PULLED, PULLING

__all__ = ["KINDS", "is_records_folder", "lint_record_file", "lint_records"]

KINDS = (INTENT, RECORD)
_DAY_NS = 86_400 * 1_000_000_000
_CODES = {Kind.SYNTAX: "KF401", Kind.TYPE: "KF402", Kind.CONTENT: "KF403"}


def is_records_folder(path: str) -> bool:
    """Return whether a folder is a kubelet's ``image_manager``, or one of the two inside it."""
    name = os.path.basename(os.path.abspath(path))
    above = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return os.path.isdir(path) and (name == FOLDER or (name in (PULLING, PULLED) and above == FOLDER))


def lint_records(path: str, *, clock: Callable[[], int] = time_ns) -> LintReport:
    """Return all problems of a folder of records."""
    inside = [os.path.join(path, name) for name in (PULLING, PULLED)]
    folders = [each for each in inside if os.path.isdir(each)] or [path]
    files: list[str] = []
    problems = [*check_folder(path)] if folders != [path] else []
    for folder in folders:
        problems += check_folder(folder)
        problems += _check_all(folder, files, clock())
    return _report(FileKind.PULL_RECORDS_FOLDER, path, tuple(files), problems)


def lint_record_file(path: str, data: bytes, *, clock: Callable[[], int] = time_ns) -> LintReport:
    """Return all problems of one record or intent, in any folder."""
    kind = INTENT if INTENT.encode() in data else RECORD
    return _report(
        FileKind.PULL_RECORD, path, (path,), list(_check_content(path, data, kind, clock(), is_placed=False))
    )


def _report(kind: FileKind, path: str, files: tuple[str, ...], problems: list[Problem]) -> LintReport:
    findings: dict[Finding, None] = {finding_of(problem): None for problem in problems}
    ordered = tuple(sorted(findings, key=place_of))
    return LintReport(path=path, kubernetes=LATEST, files=files, findings=ordered, kind=kind)


def _check_all(folder: str, files: list[str], now_ns: int) -> Iterator[Problem]:
    kind = INTENT if os.path.basename(os.path.abspath(folder)) == PULLING else RECORD
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError as error:
        yield Problem("", f"the folder cannot be read: {error.strerror}", code="KF404", file=folder)
        return
    for entry in entries:
        try:
            odd, is_read = list(check_entry(entry)), _is_read(entry)
        except FileNotFoundError:
            continue  # a running kubelet has removed or renamed it
        yield from odd
        if is_read:
            files.append(entry.path)
            yield from _check_file(entry.path, kind, now_ns)


def _is_read(entry: os.DirEntry[str]) -> bool:
    is_record = entry.name.startswith(PREFIX) and not entry.name.endswith(".tmp")
    if not is_record or not entry.is_file(follow_symlinks=False):
        return False
    return entry.stat(follow_symlinks=False).st_size <= MOST_BYTES


def _check_file(path: str, kind: str, now_ns: int) -> Iterator[Problem]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            found = os.fstat(fd)
            data = stream.read(MOST_BYTES + 1) if stat.S_ISREG(found.st_mode) else b""
    except FileNotFoundError:
        return
    except OSError as error:
        yield Problem("", f"it cannot be read: {error.strerror}", code="KF404", file=path)
        return
    yield from _check_content(path, data, kind, now_ns)
    if kind == INTENT and now_ns - found.st_mtime_ns > _DAY_NS:
        days = (now_ns - found.st_mtime_ns) // _DAY_NS
        message = f"this pull began {days} day{'s' if days > 1 else ''} ago and did not finish"
        yield Problem("", message, code="KF429", file=path)


def _check_content(
    path: str, data: bytes, kind: str, now_ns: int, *, is_placed: bool = True
) -> Iterator[Problem]:
    value: ImagePullIntent | ImagePulledRecord
    try:
        decoded = decode_intent(data, path) if kind == INTENT else decode_record(data, path)
    except RecordError as error:
        yield from _refusals(path, data, kind, error)
        return
    value = decoded.value
    if not decoded.is_current:
        yield Problem(
            "apiVersion", "found version v1alpha1; the current version is v1beta1", code="KF422", file=path
        )
    key = value.image if isinstance(value, ImagePullIntent) else value.image_ref
    if is_placed and os.path.basename(path) != file_name(key):
        message = f"{key!r} belongs in a file with the name {file_name(key)}"
        yield Problem("image" if kind == INTENT else "imageRef", message, code="KF410", file=path)
    if isinstance(value, ImagePulledRecord):
        yield from (each.placed(path, None, None) for each in check_record(value, now_ns))


def _refusals(path: str, data: bytes, kind: str, error: RecordError) -> Iterator[Problem]:
    """Yield the reasons why a file cannot be read; for its content, all of them with positions."""
    code = _CODES.get(error.kind, "KF404")
    if error.kind is Kind.SYNTAX:
        line, column = _position(data)
        yield Problem(
            "",
            error.message,
            code=code,
            kubernetes_text=error.kubernetes_text,
            file=path,
            line=line,
            column=column,
        )
        return
    if error.kind is not Kind.CONTENT:
        # For a file without a kind, Kubernetes quotes all of it, including hashes.
        yield Problem("", error.message, code=code, kubernetes_text=error.message, file=path)
        return
    document = read_document(data)
    is_yaml = document.format is DocumentFormat.YAML
    reader = Reader(() if is_yaml else tuple(each.path for each in document.duplicates), sort_keys=is_yaml)
    (ImagePullIntent if kind == INTENT else ImagePulledRecord).from_document(document.value, reader)
    for at, problem in reader.problems:
        place = document.position(at)
        yield problem.changed(code=code, file=path, line=place.line, column=place.column)
    for duplicate in document.duplicates if is_yaml else ():
        message = "the key is given more than once"
        place = duplicate.position
        shown = format_path(duplicate.path)
        yield Problem(shown, message, code=code, file=path, line=place.line, column=place.column)


def _position(data: bytes) -> tuple[int | None, int | None]:
    try:
        read_document(data)
    except DocumentError as error:
        return error.line, error.column
    return None, None
