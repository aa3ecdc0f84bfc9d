"""Lint a kuberc: report the problems of its policy for credential plugins.

For an invalid file at its default path, kubectl only warns and then runs any plugin of a kubeconfig. keyferry
refuses it there too, so an error here is an error for both if the file is given by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from keyferry._core.documents import Document
from keyferry._core.severity import Severity
from keyferry._core.values import Value, replace
from keyferry.api.codec import WrongTypeError, interpret
from keyferry.api.kuberc.v1beta1 import API_VERSIONS, read_preference
from keyferry.api.kuberc.v1beta1 import KIND as PREFERENCE
from keyferry.errors import ConfigError, DocumentError, KeyferryError, Kind, PolicyError
from keyferry.invoke.executable import look_path
from keyferry.invoke.kuberc import SEPARATOR, load_preference, policy_of, read_kuberc
from keyferry.invoke.policy import ALLOWLIST, AllowlistEntry, PluginPolicy, open_pinned, validate_entry
from keyferry.lint.code import Code, Finding, Rules
from keyferry.lint.report import FileKind, LintReport, make_report
from keyferry.lint.source import NotingReader, SourceFile, find_unknown_fields, find_writers

_LIST, _POLICY = "credentialPluginAllowlist", "credentialPluginPolicy"

policy_rule = Rules[PluginPolicy]()
entry_rule = Rules[AllowlistEntry]()


class _Part(Value):
    """One YAML document of the file, and the number of lines before it; without *document*, *refusal* is why."""

    file: str
    lines_before: int
    document: Document | None = None
    refusal: Finding | None = None

    def place(self, finding: Finding) -> Finding:
        """Return a finding at its position in the file."""
        placed = finding.placed(self.file, self.document)
        return placed if placed.line is None else replace(placed, line=placed.line + self.lines_before)


KF301 = Code(
    "KF301",
    Severity.ERROR,
    "the kuberc is not valid YAML or JSON",
    why="kubectl warns and continues without a policy, or fails if the file was given by name; keyferry fails",
    fix="correct the syntax at the given position",
)
KF302 = Code(
    "KF302",
    Severity.ERROR,
    "the kuberc contains no Preference",
    why="only a Preference of kubectl.config.k8s.io v1beta1 or v1alpha1 is read",
    fix="correct apiVersion and kind",
)
KF303 = Code(
    "KF303",
    Severity.ERROR,
    "a value has the wrong type",
    why="the whole document is ignored, including its policy",
    fix="use the expected type",
)
KF304 = Code(
    "KF304",
    Severity.ERROR,
    "command and name differ",
    why="they are two names of one field",
    fix="keep command",
)
KF350 = Code(
    "KF350",
    Severity.WARNING,
    "unknown field",
    why="kubectl warns about the field and ignores it; a misspelled policy has no effect",
    fix="correct the spelling or remove the field",
    of_name=True,
)
KF351 = Code(
    "KF351",
    Severity.WARNING,
    "a key is given more than once",
    why="the last one is used",
    fix="keep one of them",
    of_name=True,
)
KF352 = Code(
    "KF352",
    Severity.WARNING,
    "a document is ignored",
    why="if a file has several documents, the first Preference that can be read is used",
    fix="keep only that document",
)
KF353 = Code(
    "KF353",
    Severity.WARNING,
    "other users can write the kuberc",
    why="a user who can write it decides which programs may run",
    fix="run chmod go-w on the file",
    on_this_machine=True,
)
KF365 = Code(
    "KF365",
    Severity.INFO,
    "a field has its old name",
    why="the field is name in Kubernetes 1.35, and command since 1.36",
    fix="use command",
    kubernetes="name in 1.35, command since 1.36",
    of_name=True,
)


def lint_kuberc(source: SourceFile) -> LintReport:
    """Return all problems of a kuberc."""
    parts = list(_parts(source))
    chosen, refusal = _choose(source, parts)
    findings = [*find_writers(KF353, source.path, "and choose which programs may run")]
    for part in parts:
        if part is chosen and part.document is not None:
            findings += map(part.place, _check_preference(part, part.document))
        elif refusal is None:
            findings.append(_pass_over(part))
        elif part.refusal is not None:
            findings.append(part.refusal)
        else:
            findings += map(part.place, _why_refused(part.document))
    return make_report(FileKind.KUBERC, source, findings, refusal or "")


def _parts(source: SourceFile) -> Iterator[_Part]:
    start, data = 0, source.data
    ends = [(match.start(), match.end()) for match in re.finditer(SEPARATOR, data)]
    for end, following in (*ends, (len(data), len(data))):
        text = data[start:end]
        if text.strip():
            yield _read_part(source, text, data.count(b"\n", 0, start))
        start = following


def _read_part(source: SourceFile, text: bytes, lines_before: int) -> _Part:
    try:
        return _Part(file=source.path, lines_before=lines_before, document=source.read(text))
    except DocumentError as error:
        line = None if error.line is None else error.line + lines_before
        refusal = KF301.at(message=error.message, kubernetes_text=error.kubernetes_text)
        refusal = replace(refusal, file=source.path, line=line, column=error.column)
    return _Part(file=source.path, lines_before=lines_before, refusal=refusal)


def _choose(source: SourceFile, parts: list[_Part]) -> tuple[_Part | None, str | None]:
    """Return the document with which the search for a Preference ends, and kubectl's refusal of the file, if any."""
    for part in parts:
        if part.document is None:
            continue
        try:
            load_preference(part.file, part.document)
        except PolicyError as error:
            return part, error.kubernetes_text
        except ConfigError:
            continue
        return part, None
    try:
        read_kuberc(source.path, source.data)
    except ConfigError as error:
        return None, error.kubernetes_text
    return None, None


def _pass_over(part: _Part) -> Finding:
    if part.refusal is None:
        message = "kubectl ignores this document: only the first Preference that can be read is used"
        return part.place(KF352.at(message=message))
    message = f"kubectl ignores this document: {part.refusal.message}"
    return KF352.of_file(part.file, message, part.refusal.line, part.refusal.column)


def _why_refused(document: Document | None) -> Iterator[Finding]:
    """Yield why one document is not the Preference of the file."""
    value = document.value if document else None
    try:
        api_version, kind = interpret(value)
    except WrongTypeError as error:
        at = (error.field,) if error.field else ()
        yield KF303.at(*at, message=error.message, kubernetes_text=error.kubernetes_text)
        return
    if kind != PREFERENCE or api_version not in API_VERSIONS:
        expected = " or ".join(map(repr, API_VERSIONS))
        message = (
            f"found apiVersion {api_version!r} and kind {kind!r}, expected {expected} and {PREFERENCE!r}"
        )
        yield KF302.at(message=message)
        return
    reader = NotingReader()
    read_preference(value, reader)
    for path, problem in reader.problems:
        if problem.kind is not Kind.STRICT:
            code = KF303 if problem.kind is Kind.WRONG_TYPE else KF304
            yield code.at(*path, message=problem.message, kubernetes_text=problem.kubernetes_text)


def _check_preference(part: _Part, document: Document) -> Iterator[Finding]:
    reader = NotingReader()
    preference = read_preference(document.value, reader)
    yield from find_unknown_fields(KF350, reader, "kubectl warns about it, and it has no effect")
    for each in document.duplicates:
        message = f"the key is given more than once, first in line {each.first.line + part.lines_before}"
        yield KF351.at(*each.path, message=f"{message}; the last one is used")
    policy = policy_of(preference)
    refusals = list(policy_rule.check(policy))
    yield from refusals
    if refusals:
        return
    for index, entry in enumerate(policy.allowlist or ()):
        if (_LIST, index, "name") in document.positions:
            message = "'name' is the name of this field in Kubernetes 1.35; use 'command'"
            yield KF365.at(_LIST, index, "name", message=message)
        for finding in entry_rule.check(entry):
            yield replace(finding, at=(_LIST, index))


KF310 = Code(
    "KF310",
    Severity.ERROR,
    "the policy is unknown",
    why="an unknown policy allows no plugin",
    fix="set AllowAll, DenyAll or Allowlist",
)
KF311 = Code(
    "KF311",
    Severity.ERROR,
    "an allowlist is set without its policy",
    why="a list requires 'credentialPluginPolicy: Allowlist' and is refused without it",
    fix="set the policy, or remove the list",
)
KF312 = Code(
    "KF312",
    Severity.ERROR,
    "the policy Allowlist has no list",
    why="a misspelled or empty list must not allow every plugin; to run no plugin, use DenyAll",
    fix="list at least one program in credentialPluginAllowlist",
)
KF313 = Code(
    "KF313",
    Severity.ERROR,
    "an entry of the allowlist is empty or not in its shortest form",
    why="entries are compared as strings, so a path must not contain './', '//' or '..'",
    fix="use the path in the message",
)
KF314 = Code(
    "KF314",
    Severity.ERROR,
    "sha256 is not a digest",
    why="a digest is 64 hexadecimal digits, without a prefix",
    fix="use the output of sha256sum",
)


@policy_rule(KF310, KF311, KF312)
def policy(policy: PluginPolicy) -> Iterator[Finding]:
    """A policy that client-go refuses."""
    if policy.policy_type == ALLOWLIST and policy.allowlist:
        return  # see the entries
    try:
        policy.validate()
    except PolicyError as error:
        code, at = KF310, _POLICY
        if policy.policy_type == ALLOWLIST:
            code, at = KF312, _LIST if policy.allowlist is not None else _POLICY
        elif policy.policy_type in ("", "AllowAll", "DenyAll"):
            code, at = KF311, _LIST
        yield code.at(at, message=error.message, kubernetes_text=error.kubernetes_text)


@policy_rule(KF313, KF314)
def entries(policy: PluginPolicy) -> Iterator[Finding]:
    """Entries of the list that client-go refuses."""
    for index, entry in enumerate(policy.allowlist or () if policy.policy_type == ALLOWLIST else ()):
        try:
            validate_entry(index + 1, entry)
        except PolicyError as error:
            message, text = error.message, error.kubernetes_text
            if error.field == "sha256":
                yield KF314.at(_LIST, index, "sha256", message=message, kubernetes_text=text)
            else:
                yield KF313.at(_LIST, index, message=message, kubernetes_text=text)


KF360 = Code(
    "KF360",
    Severity.INFO,
    "an allowlist entry has no path",
    why="a name without a path allows any program of that name in PATH",
    fix="use an absolute path",
)
KF361 = Code(
    "KF361",
    Severity.WARNING,
    "an allowlist entry has a relative path",
    why="it is compared as a string with absolute paths, so it never matches",
    fix="use an absolute path",
)
KF362 = Code(
    "KF362",
    Severity.INFO,
    "the program of an allowlist entry does not exist on this machine",
    why="the entry allows no program until one is installed at this path",
    fix="correct or remove it",
    on_this_machine=True,
)


@entry_rule(KF360, KF361, KF362)
def command(entry: AllowlistEntry) -> Iterator[Finding]:
    """A program that may be another one, or none."""
    if os.sep not in entry.command:
        yield KF360.at(
            message=f"{entry.command!r} allows any program of that name in PATH; use its absolute path"
        )
    elif not os.path.isabs(entry.command):
        message = (
            f"{entry.command!r} is compared as a string with absolute paths, so it matches no command of a "
            "kubeconfig; use the absolute path"
        )
        yield KF361.at(message=message)
        return
    found = look_path(entry.command)
    if found.problem:
        yield KF362.at(message=f"{entry.command!r} cannot be run on this machine: {found.reason}")


KF363 = Code(
    "KF363",
    Severity.INFO,
    "only keyferry checks the digest",
    why="kubectl warns about sha256 and runs the program with any digest",
    fix="nothing, if this is intended",
)
KF364 = Code(
    "KF364",
    Severity.WARNING,
    "the digest of a program is not the listed one",
    why="keyferry does not run it; the program was updated or tampered with",
    fix="find the reason, then set the new digest",
    on_this_machine=True,
)


@entry_rule(KF363, KF364)
def digest(entry: AllowlistEntry) -> Iterator[Finding]:
    """A digest, which kubectl does not check, and whether the program has it."""
    if not entry.sha256:
        return
    message = "only keyferry checks sha256: kubectl warns about it and runs the program with any digest"
    yield KF363.at(message=message)
    found = look_path(entry.command)
    if found.problem:
        return
    try:
        os.close(open_pinned(found.path, {entry.sha256.lower()}))
    except (KeyferryError, OSError) as error:
        yield KF364.at(message=f"keyferry does not run the program: {error}")
