"""Lint a kuberc: report the problems of its policy for credential plugins.

For an invalid file at its default path, kubectl only warns and then runs any plugin of a kubeconfig. keyferry
refuses it there too, so an error here is an error for both if the file is given by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from keyferry._core.documents import Document, read_document
from keyferry._core.paths import Path, format_path
from keyferry._core.values import Value
from keyferry.api.codec import WrongTypeError, interpret
from keyferry.api.kuberc.v1beta1 import API_VERSIONS, Preference, read_preference
from keyferry.api.kuberc.v1beta1 import KIND as PREFERENCE
from keyferry.errors import ConfigError, DocumentError, KeyferryError, Kind, PolicyError, Problem
from keyferry.invoke.executable import look_path
from keyferry.invoke.kuberc import SEPARATOR, load_preference, policy_of, read_kuberc
from keyferry.invoke.policy import ALLOWLIST, AllowlistEntry, PluginPolicy, open_pinned, validate_entry
from keyferry.lint.kubeconfig.fields import NotingReader, unknown_fields
from keyferry.lint.kubeconfig.files import check_writers
from keyferry.lint.report import FileKind, LintReport, make_report

__all__ = ["lint_kuberc"]

_SYNTAX, _FOREIGN, _TYPE, _TWO_WORDS = "KF301", "KF302", "KF303", "KF304"
_POLICY, _LIST_ALONE, _NO_LIST, _ENTRY, _DIGEST = "KF310", "KF311", "KF312", "KF313", "KF314"
_UNKNOWN, _REPEATED, _PASSED_OVER, _UNTRUSTED = "KF350", "KF351", "KF352", "KF353"
_BARE, _RELATIVE, _MISSING, _PINNED, _CHANGED, _OLD_WORD = (
    "KF360",
    "KF361",
    "KF362",
    "KF363",
    "KF364",
    "KF365",
)
_LIST = "credentialPluginAllowlist"


class _Part(Value):
    """One YAML document of the file, and the number of lines before it; without *document*, *problem* is why."""

    file: str
    data: bytes
    lines_before: int
    document: Document | None = None
    problem: Problem | None = None

    def place(self, at: Path, message: str, code: str, kubernetes_text: str = "") -> Problem:
        """Return a problem at a path of this document."""
        position = self.document.position(at) if self.document else None
        return Problem(
            format_path(at),
            message,
            code=code,
            kubernetes_text=kubernetes_text,
            file=self.file,
            line=position.line + self.lines_before if position else None,
            column=position.column if position else None,
        )


def lint_kuberc(path: str, data: bytes) -> LintReport:
    """Return all problems of the kuberc *path*, whose content is *data*."""
    parts = list(_parts(path, data))
    refused, text = _refusal(path, data)
    chosen = next((part for part in parts if _loads(part)), None)
    problems = [*check_writers(path, "and choose which programs may run", _UNTRUSTED)]
    for part in parts:
        if part is chosen:
            problems += _check_preference(part)
        elif refused:
            problems += _why_refused(part)
        else:
            problems.append(_pass_over(part))
    return make_report(FileKind.KUBERC, path, problems, text)


def _refusal(path: str, data: bytes) -> tuple[bool, str]:
    """Return whether kubectl refuses the file, and its error message."""
    try:
        read_kuberc(path, data)
    except (ConfigError, PolicyError) as error:
        return True, error.kubernetes_text
    return False, ""


def _parts(path: str, data: bytes) -> Iterator[_Part]:
    start = 0
    ends = [(match.start(), match.end()) for match in re.finditer(SEPARATOR, data)]
    for end, following in (*ends, (len(data), len(data))):
        text = data[start:end]
        if text.strip():
            yield _read_part(path, text, data.count(b"\n", 0, start))
        start = following


def _read_part(path: str, text: bytes, lines_before: int) -> _Part:
    try:
        return _Part(
            file=path, data=text, lines_before=lines_before, document=read_document(text, quoting=True)
        )
    except DocumentError as error:
        line = None if error.line is None else error.line + lines_before
        problem = Problem(
            "",
            error.message,
            code=_SYNTAX,
            kubernetes_text=error.kubernetes_text,
            file=path,
            line=line,
            column=error.column,
        )
    return _Part(file=path, data=text, lines_before=lines_before, document=None, problem=problem)


def _loads(part: _Part) -> bool:
    """Return whether the search for a Preference ends at this document, as it also does at an invalid policy."""
    if part.document is None:
        return False
    try:
        load_preference(part.file, part.document)
    except PolicyError:
        return True
    except ConfigError:
        return False
    return True


def _pass_over(part: _Part) -> Problem:
    why, at = "only the first Preference that can be read is used", part.problem
    if at is None:
        return part.place((), f"kubectl ignores this document: {why}", _PASSED_OVER)
    message = f"kubectl ignores this document: {at.message}"
    return Problem("", message, code=_PASSED_OVER, file=part.file, line=at.line, column=at.column)


def _why_refused(part: _Part) -> Iterator[Problem]:
    """Yield why one document is not the Preference of the file."""
    if part.document is None:
        yield from (part.problem,) if part.problem else ()
        return
    try:
        api_version, kind = interpret(part.document.value)
    except WrongTypeError as error:
        at: Path = (error.field,) if error.field else ()
        yield part.place(at, error.message, _TYPE, error.kubernetes_text)
        return
    if kind != PREFERENCE or api_version not in API_VERSIONS:
        expected = " or ".join(map(repr, API_VERSIONS))
        message = (
            f"found apiVersion {api_version!r} and kind {kind!r}, expected {expected} and {PREFERENCE!r}"
        )
        yield part.place((), message, _FOREIGN)
        return
    reader = NotingReader()
    read_preference(part.document.value, reader)
    for at, problem in reader.problems:
        if problem.kind is not Kind.STRICT:
            code = _TYPE if problem.kind is Kind.WRONG_TYPE else _TWO_WORDS
            yield part.place(at, problem.message, code, problem.kubernetes_text)


def _check_preference(part: _Part) -> Iterator[Problem]:
    assert part.document is not None  # noqa: S101 - only a document that was read is chosen
    reader = NotingReader()
    preference = read_preference(part.document.value, reader)
    consequence = "kubectl warns about it, and it has no effect"
    for at, message in unknown_fields(reader, consequence):
        yield part.place(at, message, _UNKNOWN)
    for each in part.document.duplicates:
        message = f"the key is given more than once, first in line {each.first.line + part.lines_before}"
        yield part.place(each.path, f"{message}; the last one is used", _REPEATED)
    refusals = list(_check_policy(part, preference))
    yield from refusals
    if not refusals:
        yield from _check_entries(part, preference)


def _check_policy(part: _Part, preference: Preference) -> Iterator[Problem]:
    """Yield client-go's refusals of the policy, and those of each entry of its list."""
    policy = policy_of(preference)
    entries = policy.allowlist or ()
    if policy.policy_type == ALLOWLIST and entries:
        for index, entry in enumerate(entries):
            yield from _check_entry(part, index, entry)
        return
    try:
        policy.validate()
    except PolicyError as error:
        at, code = _place_of(policy)
        yield part.place((at,), error.message, code, error.kubernetes_text)


def _place_of(policy: PluginPolicy) -> tuple[str, str]:
    if policy.policy_type == ALLOWLIST:
        return (_LIST if policy.allowlist is not None else "credentialPluginPolicy"), _NO_LIST
    if policy.policy_type in ("", "AllowAll", "DenyAll"):
        return _LIST, _LIST_ALONE
    return "credentialPluginPolicy", _POLICY


def _check_entry(part: _Part, index: int, entry: AllowlistEntry) -> Iterator[Problem]:
    try:
        validate_entry(index + 1, entry)
    except PolicyError as error:
        code = _DIGEST if error.field == "sha256" else _ENTRY
        at: Path = (_LIST, index, "sha256") if code == _DIGEST else (_LIST, index)
        yield part.place(at, error.message, code, error.kubernetes_text)


def _check_entries(part: _Part, preference: Preference) -> Iterator[Problem]:
    """Yield the suspicions about a valid list."""
    value = part.document.value if part.document else None
    listed = value.get(_LIST) if isinstance(value, dict) else None
    written = listed if isinstance(listed, list) else []
    for index, entry in enumerate(policy_of(preference).allowlist or ()):
        at: Path = (_LIST, index)
        if isinstance(written[index], dict) and "name" in written[index]:
            message = "'name' is the name of this field in Kubernetes 1.35; use 'command'"
            yield part.place((*at, "name"), message, _OLD_WORD)
        for code, message in (*_check_command(entry.command), *_check_digest(entry)):
            yield part.place(at, message, code)


def _check_command(command: str) -> Iterator[tuple[str, str]]:
    if os.sep not in command:
        message = f"{command!r} allows any program of that name in PATH; use its absolute path"
        yield _BARE, message
    elif not os.path.isabs(command):
        message = (
            f"{command!r} is compared as a string with absolute paths, so it matches no command of a kubeconfig; "
            "use the absolute path"
        )
        yield _RELATIVE, message
        return
    found = look_path(command)
    if found.problem:
        yield _MISSING, f"{command!r} cannot be run on this machine: {found.reason}"


def _check_digest(entry: AllowlistEntry) -> Iterator[tuple[str, str]]:
    if not entry.sha256:
        return
    message = "only keyferry checks sha256: kubectl warns about it and runs the program with any digest"
    yield _PINNED, message
    found = look_path(entry.command)
    if found.problem:
        return
    try:
        os.close(open_pinned(found.path, {entry.sha256.lower()}))
    except (KeyferryError, OSError) as error:
        yield _CHANGED, f"keyferry does not run the program: {error}"
