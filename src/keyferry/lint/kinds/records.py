"""Lint a kubelet's pull records: report files that cannot be read and files that cannot be trusted."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator

from keyferry._core.clock import time_ns
from keyferry._core.documents import DocumentFormat, read_document
from keyferry._core.severity import Severity
from keyferry._core.values import Value, replace
from keyferry.api.kubeletconfig.records import (
    INTENT,
    RECORD,
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullIntent,
)
from keyferry.api.meta import NO_TIME_NS, format_instant
from keyferry.api.wire import Reader
from keyferry.errors import DocumentError, ImageNameError, Kind, RecordError
from keyferry.images.reference import trim
from keyferry.lint.code import Code, Finding, Rules, in_order
from keyferry.lint.report import FileKind, LintReport
from keyferry.lint.source import SourceFile, who_writes
from keyferry.pulls.records.decide import MAX_ADDED
from keyferry.pulls.records.disk import MAX_BYTES
from keyferry.pulls.records.format import PREFIX, decode_intent, decode_record, file_name
from keyferry.pulls.records.store import FOLDER, PULLED, PULLING

_DAY_NS = 86_400 * 1_000_000_000
_SLACK_NS = 3_600 * 1_000_000_000
_HASH = re.compile(r"[0-9a-f]{64}")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_READ = stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH
_AGAIN = "the kubelet verifies access to the image again, under every policy"
_REMOVE = "remove the file; the next pull of the image writes a new record"


class _DatedRecord(Value):
    """A record, and the time at which it is linted."""

    record: ImagePulledRecord
    now_ns: int


entry_rule = Rules[os.DirEntry[str]]()
record_rule = Rules[_DatedRecord]()


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
    findings = [*_check_folder(path)] if folders != [path] else []
    for folder in folders:
        findings += _check_folder(folder)
        findings += _check_entries(folder, files, clock())
    return LintReport(
        path=path, files=tuple(files), findings=in_order(findings), kind=FileKind.PULL_RECORDS_FOLDER
    )


def lint_record_file(source: SourceFile) -> LintReport:
    """Return all problems of one record or intent, in any folder; without the source, as a record is never shown."""
    path, kind = source.path, INTENT if INTENT.encode() in source.data else RECORD
    findings = in_order(_check_content(path, source.data, kind, time_ns(), is_placed=False))
    return LintReport(path=path, files=(path,), findings=findings, kind=FileKind.PULL_RECORD)


# Files and folders: links, owners, modes, names.

KF404 = Code(
    "KF404",
    Severity.ERROR,
    "a record or its folder cannot be read",
    why=_AGAIN,
    fix="check its permissions and the disk",
)
KF411 = Code(
    "KF411",
    Severity.WARNING,
    "a record or its folder is a symbolic link",
    why="kubelets create files and folders, never links; keyferry does not follow it",
    fix=_REMOVE,
)
KF414 = Code(
    "KF414",
    Severity.WARNING,
    "other users can write a record or its folder",
    why="a user who can write it decides who may use the images of this node; keyferry does not trust it",
    fix="run chmod 600 on the file and chmod 700 on the folder, and find out who wrote the file",
)
KF415 = Code(
    "KF415",
    Severity.WARNING,
    "other users can read a record or its folder",
    why="records contain unsalted hashes of credentials, from which a weak password can be guessed",
    fix="run chmod 600 on the file and chmod 700 on the folder",
)
KF416 = Code(
    "KF416",
    Severity.WARNING,
    "a record or its folder belongs to another user",
    why="its owner decides who may use the images of this node; keyferry does not trust it",
    fix="remove it, or run chown root on it if you know where it comes from",
)


def _check_folder(path: str) -> Iterator[Finding]:
    try:
        found = os.stat(path)
    except OSError as error:
        yield KF404.of_file(path, f"the folder cannot be read: {error.strerror}")
        return
    if os.path.islink(path):
        yield _link(path, "folder")
    yield from _check_mode(path, found, "folder", "700")


def _link(path: str, expected: str) -> Finding:
    message = f"it is a symbolic link to {os.readlink(path)!r}, expected a {expected}; remove it"
    return KF411.of_file(path, message)


def _check_mode(path: str, found: os.stat_result, what: str, mode: str) -> Iterator[Finding]:
    shown = f"mode {stat.S_IMODE(found.st_mode):04o}"
    if found.st_mode & _OTHERS_WRITE:
        message = f"{who_writes(found.st_mode)} can write the {what} ({shown}); run chmod {mode} {path}"
        yield KF414.of_file(path, message)
    elif found.st_mode & _OTHERS_READ:
        yield KF415.of_file(path, f"other users can read the {what} ({shown}); run chmod {mode} {path}")
    if found.st_uid not in (0, os.geteuid()):
        message = f"the {what} belongs to user {found.st_uid}, expected root or user {os.geteuid()}"
        yield KF416.of_file(path, message)


def _check_entries(folder: str, files: list[str], now_ns: int) -> Iterator[Finding]:
    """Yield the problems of all entries of a folder, and add those that are read to *files*."""
    kind = INTENT if os.path.basename(os.path.abspath(folder)) == PULLING else RECORD
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError as error:
        yield KF404.of_file(folder, f"the folder cannot be read: {error.strerror}")
        return
    for entry in entries:
        try:
            odd, is_read = list(entry_rule.check(entry)), _is_read(entry)
        except FileNotFoundError:
            continue  # a running kubelet has removed or renamed it
        yield from odd
        if is_read:
            files.append(entry.path)
            yield from _check_file(entry.path, kind, now_ns)


def _is_record(entry: os.DirEntry[str]) -> bool:
    return entry.name.startswith(PREFIX) and not entry.name.endswith(".tmp")


def _is_read(entry: os.DirEntry[str]) -> bool:
    if not _is_record(entry) or not entry.is_file(follow_symlinks=False):
        return False
    return entry.stat(follow_symlinks=False).st_size <= MAX_BYTES


KF420 = Code(
    "KF420",
    Severity.WARNING,
    "a temporary file was left behind",
    why="a process ended while it wrote a record; the file is ignored",
    fix="remove it",
)
KF421 = Code(
    "KF421",
    Severity.WARNING,
    "a file or folder does not belong here",
    why="only files whose names begin with 'sha256-' are read",
    fix="remove it",
)


@entry_rule(KF420, KF421)
def foreign_entry(entry: os.DirEntry[str]) -> Iterator[Finding]:
    """Entries that are not records."""
    if entry.is_dir(follow_symlinks=False) or not entry.name.startswith(PREFIX):
        message = "it is ignored: only files whose names begin with 'sha256-' are read; remove it"
        yield KF421.of_file(entry.path, message)
    elif entry.name.endswith(".tmp"):
        message = "it is ignored: a process that ended while writing left it behind; remove it"
        yield KF420.of_file(entry.path, message)


KF412 = Code(
    "KF412",
    Severity.WARNING,
    "a record has several names (hard links)",
    why="another user may be able to change it through the other name; keyferry does not trust it",
    fix=_REMOVE,
)
KF413 = Code(
    "KF413",
    Severity.WARNING,
    "a record is not a regular file",
    why="kubelets write regular files; keyferry does not open it",
    fix=_REMOVE,
)
KF417 = Code(
    "KF417",
    Severity.WARNING,
    "a record is too large",
    why="no kubelet writes such a large record; keyferry does not read it",
    fix=_REMOVE,
)


@entry_rule(KF411, KF412, KF413, KF414, KF415, KF416, KF417)
def record_entry(entry: os.DirEntry[str]) -> Iterator[Finding]:
    """Records that another user could change, and what kubelets do not write."""
    if entry.is_dir(follow_symlinks=False) or not _is_record(entry):
        return
    if entry.is_symlink():
        yield _link(entry.path, "file")
        return
    found = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        yield KF413.of_file(entry.path, "it is not a regular file; remove it")
        return
    yield from _check_mode(entry.path, found, "record", "600")
    if found.st_nlink > 1:
        yield KF412.of_file(entry.path, f"it has {found.st_nlink} names, expected 1; remove it")
    if found.st_size > MAX_BYTES:
        message = f"it has {found.st_size} bytes, expected at most {MAX_BYTES}; remove it"
        yield KF417.of_file(entry.path, message)


# The content of a file.

KF429 = Code(
    "KF429",
    Severity.INFO,
    "a pull began long ago and did not finish",
    why="a kubelet that starts writes a record for it if the image is present; until then access is verified",
    fix="nothing, if the pull is still running; else remove the file",
)


def _check_file(path: str, kind: str, now_ns: int) -> Iterator[Finding]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            found = os.fstat(fd)
            data = stream.read(MAX_BYTES + 1) if stat.S_ISREG(found.st_mode) else b""
    except FileNotFoundError:
        return
    except OSError as error:
        yield KF404.of_file(path, f"it cannot be read: {error.strerror}")
        return
    yield from _check_content(path, data, kind, now_ns)
    if kind == INTENT and now_ns - found.st_mtime_ns > _DAY_NS:
        days = (now_ns - found.st_mtime_ns) // _DAY_NS
        message = f"this pull began {days} day{'s' if days > 1 else ''} ago and did not finish"
        yield KF429.of_file(path, message)


KF410 = Code(
    "KF410",
    Severity.WARNING,
    "the name of a file is not the hash of its image",
    why="only a kubelet that starts reads and trusts it; keyferry does not trust it",
    fix="remove it; an attacker may have written it to gain access",
)
KF422 = Code(
    "KF422",
    Severity.INFO,
    "a record has an old version",
    why="the kubelet reads it, and rewrites it when it starts",
    fix="nothing, if the kubelet is 1.35 or later",
    kubernetes="v1beta1 since 1.35",
)


def _check_content(
    path: str, data: bytes, kind: str, now_ns: int, *, is_placed: bool = True
) -> Iterator[Finding]:
    value: ImagePullIntent | ImagePulledRecord
    try:
        decoded = decode_intent(data, path) if kind == INTENT else decode_record(data, path)
    except RecordError as error:
        yield from _refusals(path, data, kind, error)
        return
    value = decoded.value
    if not decoded.is_current:
        message = "found version v1alpha1; the current version is v1beta1"
        yield KF422.at("apiVersion", message=message).placed(path, None)
    key = value.image if isinstance(value, ImagePullIntent) else value.image_ref
    if is_placed and os.path.basename(path) != file_name(key):
        message = f"{key!r} belongs in a file with the name {file_name(key)}"
        yield KF410.at("image" if kind == INTENT else "imageRef", message=message).placed(path, None)
    if isinstance(value, ImagePulledRecord):
        for finding in record_rule.check(_DatedRecord(record=value, now_ns=now_ns)):
            yield finding.placed(path, None)


KF401 = Code(
    "KF401",
    Severity.ERROR,
    "a record is not valid JSON or YAML",
    why=f"it is truncated or damaged; {_AGAIN}",
    fix=_REMOVE,
)
KF402 = Code(
    "KF402",
    Severity.ERROR,
    "a record has an unknown kind or version",
    why=f"only ImagePullIntent and ImagePulledRecord of v1beta1 and v1alpha1 are read; {_AGAIN}",
    fix=f"{_REMOVE}; or use the version of the kubelet that wrote it",
)
KF403 = Code(
    "KF403",
    Severity.ERROR,
    "a field of a record is unknown, given twice, or of the wrong type",
    why=f"records are decoded strictly; {_AGAIN}",
    fix=_REMOVE,
)


def _refusals(path: str, data: bytes, kind: str, error: RecordError) -> Iterator[Finding]:
    """Yield the reasons why a file cannot be read; for its content, all of them with positions."""
    if error.kind is Kind.SYNTAX:
        line, column = _error_position(data)
        refusal = KF401.at(message=error.message, kubernetes_text=error.kubernetes_text)
        yield replace(refusal, file=path, line=line, column=column)
        return
    if error.kind is not Kind.CONTENT:
        # For a file without a kind, Kubernetes quotes all of it, including hashes.
        yield (KF402 if error.kind is Kind.TYPE else KF404).of_file(path, error.message)
        return
    document = read_document(data)
    is_yaml = document.format is DocumentFormat.YAML
    reader = Reader(() if is_yaml else tuple(each.path for each in document.duplicates), sort_keys=is_yaml)
    (ImagePullIntent if kind == INTENT else ImagePulledRecord).from_document(document.value, reader)
    for at, problem in reader.problems:
        refusal = KF403.at(
            *at, message=problem.message, kubernetes_text=problem.kubernetes_text, detail=problem.detail
        )
        yield replace(refusal.placed(path, document), path=problem.path)
    for duplicate in document.duplicates if is_yaml else ():
        place = duplicate.position
        repeated = KF403.at(*duplicate.path, message="the key is given more than once")
        yield replace(repeated, file=path, line=place.line, column=place.column, at=())


def _error_position(data: bytes) -> tuple[int | None, int | None]:
    try:
        read_document(data)
    except DocumentError as error:
        return error.line, error.column
    return None, None


KF423 = Code(
    "KF423",
    Severity.WARNING,
    "a record has no time, or a time in the future",
    why="records are removed by their time: without a time at the next garbage collection, with a future time too late",
    fix="check the clock of the node, or remove the file",
)


@record_rule(KF423)
def last_update(dated: _DatedRecord) -> Iterator[Finding]:
    """A time by which the record is removed too early or too late."""
    updated_ns = dated.record.last_updated_ns
    if updated_ns == NO_TIME_NS:
        message = "it is missing: the next garbage collection removes the record"
        yield KF423.at("lastUpdatedTime", message=message)
    elif updated_ns > dated.now_ns + _SLACK_NS:
        yield KF423.at("lastUpdatedTime", message=f"{format_instant(updated_ns)} is in the future")


KF424 = Code(
    "KF424",
    Severity.WARNING,
    "a record has a name that no image of a pod can have",
    why="names are compared as strings, without tag and digest; this one is never found",
    fix=_REMOVE,
)
KF425 = Code(
    "KF425",
    Severity.INFO,
    "a record names no credentials",
    why="a crash interrupted the pull, so every access is verified; with imagePullPolicy Never that fails",
    fix="nothing; the next successful pull records who may use the image",
)
KF426 = Code(
    "KF426",
    Severity.WARNING,
    "a secret has no valid hash",
    why="it is recognised only by namespace, name and uid",
    fix="nothing; the next use of the secret corrects the record",
)
KF427 = Code(
    "KF427",
    Severity.WARNING,
    "one name has a hundred or more secrets",
    why="a kubelet adds no more secrets when it verifies access, and no longer trusts a secret that was changed",
    fix="use fewer secrets for one image, or a shared one",
)
KF428 = Code(
    "KF428",
    Severity.WARNING,
    "a record has nodePodsAccessible and secrets or accounts",
    why="nodePodsAccessible lets every pod of the node use the image; the secrets and accounts are ignored",
    fix="remove the record if not every pod may use the image",
)


@record_rule(KF424, KF425, KF426, KF427, KF428)
def credentials(dated: _DatedRecord) -> Iterator[Finding]:
    """Names and credentials that give nobody access, or everybody; hashes are not quoted."""
    mapping = dated.record.credential_mapping
    if not mapping:
        message = "it names no credentials: every access to this image is verified"
        yield KF425.at("credentialMapping", message=message)
    for name, entry in mapping.items():
        where = f"credentialMapping[{name!r}]"
        yield from _check_name(where, name)
        yield from _check_entry(where, entry)


def _check_name(where: str, name: str) -> Iterator[Finding]:
    try:
        trimmed = trim(name)
    except ImageNameError as error:
        yield KF424.at(where, message=error.message)
        return
    if trimmed != name:
        message = f"it has a tag or digest, so it is never found; expected {trimmed!r}"
        yield KF424.at(where, message=message)


def _check_entry(where: str, entry: ImagePullCredentials) -> Iterator[Finding]:
    if entry.is_empty:
        message = "it names no credentials: every access under this name is verified"
        yield KF425.at(where, message=message)
    if entry.node_pods_accessible and (entry.kubernetes_secrets or entry.kubernetes_service_accounts):
        message = "every pod may use the image, so the secrets and accounts are ignored"
        yield KF428.at(where, message=message)
    count = len(entry.kubernetes_secrets)
    if count >= MAX_ADDED:
        message = f"it has {count} secrets; from {MAX_ADDED} on, changed ones are not trusted"
        yield KF427.at(where, message=message)
    for number, secret in enumerate(entry.kubernetes_secrets):
        if not _HASH.fullmatch(secret.credential_hash):
            found = "another value" if secret.credential_hash else "nothing"
            message = f"found {found}, expected a SHA-256 in hexadecimal"
            yield KF426.at(where, "kubernetesSecrets", number, "credentialHash", message=message)
