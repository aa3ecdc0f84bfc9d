"""Strict decoding of one config file: its content, and all problems that Kubernetes would find."""

from __future__ import annotations

from keyferry._core.documents import Document, DocumentFormat, read_document
from keyferry._core.gotext import quote
from keyferry._core.paths import Path, format_path
from keyferry._core.positions import DuplicateKey
from keyferry._core.values import Value, field
from keyferry.api.codec import (
    Refused,
    describe_empty,
    known_fields,
    kubernetes_failure,
    place_problem,
    read_typed,
)
from keyferry.api.kubeletconfig import v1
from keyferry.api.wire import Reader, anything
from keyferry.errors import Detail, Kind, Problem

CONFIG_KIND = "CredentialProviderConfig"
_CODES = {Kind.STRICT: "KF107", Kind.WRONG_TYPE: "KF109", Kind.DURATION: "KF110"}


class ConfigFile(Value):
    """One file of a config: its content, and the problems that Kubernetes would find."""

    path: str
    data: bytes = field(repr=False)
    document: Document | None
    config: v1.CredentialProviderConfig
    problems: tuple[Problem, ...] = ()
    kubernetes_text: str = field(default="", repr=False)  # may quote the whole file
    kind: Kind | None = None

    def problem(self, at: Path, problem: Problem) -> Problem:
        """Return *problem* with the position of the path *at* in this file."""
        return place_problem(problem, self.path, self.document, at)


def decode_file(path: str, data: bytes) -> ConfigFile:
    """Decode one config file strictly; problems are part of the result."""
    read = read_typed(
        path,
        data,
        lambda content: read_document(content, quoting=True),
        syntax_code="KF103",
        type_code="KF109",
        json_stage="couldn't get version/kind; json parse error: ",
    )
    if isinstance(read, Refused):
        return refused(path, data, read.document, read.problem)
    document = read.document
    unknown = _judge_type(read.api_version, read.kind, data, document)
    if unknown is not None:
        return refused(path, data, document, place_problem(unknown, path, document, _type_path(unknown)))
    return _decode_config(path, data, document, read.api_version)


def _type_path(problem: Problem) -> Path:
    return (problem.path,) if problem.path else ()


def _judge_type(api_version: str, kind: str, data: bytes, document: Document) -> Problem | None:
    """Return Kubernetes' problem with a document that is not a CredentialProviderConfig, or None."""
    shown = data.decode("utf-8", "replace")
    if api_version.count("/") > 1:
        text = f"unexpected GroupVersion string: {api_version}"
        message = f"apiVersion {api_version!r} has more than one '/'"
        return Problem("apiVersion", message, code="KF105", kubernetes_text=text, kind=Kind.GROUP_VERSION)
    if not kind:
        found = describe_empty(data) if document.value is None else "kind is missing"
        message = f"{found}, expected {CONFIG_KIND!r}"
        text = f"Object 'Kind' is missing in '{shown}'"
        return Problem("", message, code="KF104", kubernetes_text=text, kind=Kind.MISSING_KIND)
    # Kubernetes checks only the version, which is empty for a group alone, such as "kubelet.config.k8s.io/".
    if not api_version.rpartition("/")[2]:
        message = f"apiVersion is missing, expected {v1.API_VERSION!r}"
        text = f"Object 'apiVersion' is missing in '{shown}'"
        return Problem("", message, code="KF104", kubernetes_text=text, kind=Kind.MISSING_API_VERSION)
    if kind == CONFIG_KIND and api_version in v1.API_VERSIONS:
        return None
    return _judge_foreign(api_version, kind, document)


def _judge_foreign(api_version: str, kind: str, document: Document) -> Problem:
    fields = known_fields(api_version, kind)
    at = "kind" if kind != CONFIG_KIND else "apiVersion"
    message = (
        f"apiVersion {api_version!r} and kind {kind!r} are not those of a credential provider config, "
        f"expected {v1.API_VERSION!r} and {CONFIG_KIND!r}"
    )
    if fields is None:
        version = api_version.removeprefix("/")
        text = f'no kind "{kind}" is registered for version "{version}" in scheme "<scheme>"'
        return Problem(at, message, code="KF105", kubernetes_text=text, kind=Kind.UNKNOWN_TYPE)
    reader = _reader(document)
    reader.struct(document.value, (), dict.fromkeys(fields, anything))
    failure = kubernetes_failure(reader.problems, _yaml_duplicates(document))
    if failure is not None:
        return Problem(
            at,
            message,
            code="KF106",
            kubernetes_text=failure.kubernetes_text,
            kind=failure.kind,
        )
    return Problem(at, message, code="KF106", kubernetes_text=f'failed to decode "{kind}" (wrong Kind)')


def _decode_config(path: str, data: bytes, document: Document, api_version: str) -> ConfigFile:
    reader = _reader(document)
    config = v1.CredentialProviderConfig.from_document(document.value, reader, api_version)
    problems = [
        place_problem(problem.changed(code=_CODES[problem.kind]), path, document, at)
        for at, problem in reader.problems
        # Reported below, with both positions.
        if problem.detail is not Detail.REPEATED_FIELD
    ]
    problems += [_duplicate_key(path, duplicate) for duplicate in document.duplicates]
    failure = kubernetes_failure(reader.problems, _yaml_duplicates(document))
    if failure is None:
        return ConfigFile(path, data, document, config)
    text = f"error decoding config {quote(path)}: {failure.kubernetes_text}"
    return ConfigFile(path, data, document, config, tuple(problems), text, failure.kind)


def _reader(document: Document) -> Reader:
    if document.format is DocumentFormat.YAML:
        return Reader(sort_keys=True)
    return Reader(tuple(duplicate.path for duplicate in document.duplicates))


def _yaml_duplicates(document: Document) -> str:
    if document.format is not DocumentFormat.YAML or not document.duplicates:
        return ""
    lines = (
        f"  line {duplicate.kubernetes_line}: key {quote(str(duplicate.path[-1]))} already set in map"
        for duplicate in document.duplicates
    )
    return "yaml: unmarshal errors:\n" + "\n".join(lines)


def _duplicate_key(path: str, duplicate: DuplicateKey) -> Problem:
    shown = format_path(duplicate.path)
    return Problem(
        shown,
        f"the key is given more than once, first at line {duplicate.first.line}",
        code="KF108",
        kubernetes_text=f'duplicate field "{shown}"',
        kind=Kind.STRICT,
        detail=Detail.REPEATED_FIELD,
        file=path,
        line=duplicate.position.line,
        column=duplicate.position.column,
    )


def refused(
    path: str, data: bytes, document: Document | None, problem: Problem, kubernetes_text: str = ""
) -> ConfigFile:
    """Return an empty config file, with the one problem for which the file is refused."""
    text = kubernetes_text or f"error decoding config {quote(path)}: {problem.kubernetes_text}"
    empty = v1.CredentialProviderConfig()
    return ConfigFile(path, data, document, empty, (problem,), text, problem.kind)
