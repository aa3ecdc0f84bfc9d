"""What a file is, and the configs inside it: in a machine config of Talos, a file for cloud-init, a ConfigMap.

A config inside another document is linted, with the positions that it has there. A kubelet refuses the document
itself, which is an error only if a kubelet reads it: another tool takes the config out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from keyferry._core.documents import Document, is_json, read_document, read_yaml
from keyferry._core.json import dumps
from keyferry._core.paths import Path, format_path
from keyferry._core.positions import Position
from keyferry._core.severity import Severity
from keyferry._core.values import Value, field, replace
from keyferry.api.codec import WrongTypeError, interpret
from keyferry.errors import DocumentError
from keyferry.lint.code import Code, Finding, in_order
from keyferry.lint.report import FileKind, LintReport
from keyferry.lint.source import SourceFile

PROVIDERS, FEDERATION = "CredentialProviderConfig", "FederationConfig"
# Patterns that recognise a file that is not valid YAML.
_KIND = re.compile(rb"""(?m)^[ \t{]*["']?kind["']?[ \t]*:[ \t]*["']?(\w+)""")
_SECTION = re.compile(rb"""(?m)^["']?(?:clusters|users|contexts|current-context)["']?[ \t]*:""")
_KUBECONFIG_FIELDS = frozenset({"clusters", "users", "contexts", "current-context"})
_PREFERENCE = re.compile(
    rb"""(?m)^[ \t{]*["']?(?:apiVersion["']?[ \t]*:[ \t]*["']?kubectl\.config\.k8s\.io/"""
    rb"""|credentialPlugin(?:Policy|Allowlist))"""
)
# The fields that only a provider file of ClusterProfiles has, which has no kind.
_PROVIDER_FIELDS = frozenset({"execConfig", "profileSourcedCLIArgsPolicy", "profileSourcedEnvVarsPolicy"})
_PROVIDER_FIELD = re.compile(rb"""["']?(?:execConfig|profileSourced\w+)["']?[ \t]*:""")
_KUBERC = "kuberc"
_KUBECONFIG = "Config"
_PREFERENCE_KIND = "Preference"
_PREFERENCE_VERSIONS = ("kubectl.config.k8s.io/v1beta1", "kubectl.config.k8s.io/v1alpha1")
# The files whose kind field decides alone. The kinds stand here as texts: their modules are large, and few are needed.
_FILE_KINDS = {
    "AgentConfig": FileKind.AGENT_CONFIG,
    _KUBECONFIG: FileKind.KUBECONFIG,
    FEDERATION: FileKind.FEDERATION,
    "ImagePullIntent": FileKind.PULL_RECORD,
    "ImagePulledRecord": FileKind.PULL_RECORD,
    "KubeletConfiguration": FileKind.KUBELET_CONFIG,
}
_DOCUMENT = re.compile(rb"^---", re.MULTILINE)
# The configs that may be inside another document, with their groups.
_GROUPS = {PROVIDERS: "kubelet.config.k8s.io", FEDERATION: "keyferry.dev"}
# The refusals of a document because of its type.
_FOREIGN = frozenset({"KF104", "KF105", "KF106"})


def recognise(data: bytes, name: str = "", read: Callable[[bytes], Document] = read_document) -> FileKind:
    """Return the kind of a file; one that has no known kind is taken for a provider config.

    *name* is the name of the file: one that is called ``kuberc`` is read as a kuberc by kubectl, whatever is in it.
    """
    if name == _KUBERC:
        return FileKind.KUBERC
    try:
        value = _read_any(data, read)
        version, kind = interpret(value)
    except (DocumentError, WrongTypeError):
        return _guess(data)
    if kind in _FILE_KINDS:
        return _FILE_KINDS[kind]
    # A kuberc may be any document of its file.
    if (
        kind == _PREFERENCE_KIND
        or version in _PREFERENCE_VERSIONS
        or (_DOCUMENT.search(data) and _guess_kind(data) == _PREFERENCE_KIND)
    ):
        return FileKind.KUBERC
    if not kind and _has_profile_providers(value):
        return FileKind.PROFILE_PROVIDERS
    is_kubeconfig = not kind and isinstance(value, dict) and not _KUBECONFIG_FIELDS.isdisjoint(value)
    return FileKind.KUBECONFIG if is_kubeconfig else FileKind.PROVIDERS


def _has_profile_providers(value: object) -> bool:
    """Return whether a document without a kind is the provider file of ClusterProfiles, by a field of a provider."""
    listed = value.get("providers") if isinstance(value, dict) else None
    entries = filter(lambda each: isinstance(each, dict), listed if isinstance(listed, list) else ())
    return any(not _PROVIDER_FIELDS.isdisjoint(entry) for entry in entries)


def _read_any(data: bytes, read: Callable[[bytes], Document]) -> object:
    try:
        return read(data).value
    except DocumentError:
        if not is_json(data):
            raise
    # It is no JSON, but client-go reads a kubeconfig that begins with '{' as YAML.
    return read_yaml(data).value


def _guess(data: bytes) -> FileKind:
    kind = _guess_kind(data)
    if kind != _KUBECONFIG and _PREFERENCE.search(data):
        return FileKind.KUBERC
    if kind == _KUBECONFIG or (not kind and _SECTION.search(data)):
        return FileKind.KUBECONFIG
    if kind in _FILE_KINDS:
        return _FILE_KINDS[kind]
    if not kind and _PROVIDER_FIELD.search(data):
        return FileKind.PROFILE_PROVIDERS
    return FileKind.KUBERC if kind == _PREFERENCE_KIND else FileKind.PROVIDERS


def _guess_kind(data: bytes) -> str:
    kinds = [match[1].decode("ascii", "replace") for match in _KIND.finditer(data)]
    known = [kind for kind in kinds if kind in (_PREFERENCE_KIND, *_FILE_KINDS)]
    return (known or kinds or [""])[0]


# Configs inside other documents.


class NestedConfig(Value):
    """A config inside a document: its kind, its path there, and its own text.

    *is_text* if the document has it as a string. *name* is the file's name that the document gives it: beside a file's
    content its path, else the key.
    """

    kind: str
    at: Path
    name: str
    data: bytes = field(repr=False)
    is_text: bool


KF184 = Code(
    "KF184",
    Severity.INFO,
    "a provider config is nested in another document",
    why="the kubelet reads only a file that is a provider config; another tool must take this one out of the document",
    fix="nothing, if such a tool does so; else put the config in a file of its own",
)
KF659 = Code(
    "KF659",
    Severity.INFO,
    "a FederationConfig is nested in another document",
    why=(
        "the plugin reads only a file that is a FederationConfig, as JSON; another tool must take this one out of the "
        "document"
    ),
    fix="nothing, if such a tool does so; else put the config in a file of its own",
)


def add_nested(
    report: LintReport,
    source: SourceFile,
    linters: Mapping[str, Callable[[bytes], LintReport]],
    *,
    is_read_by_kubelet: bool = False,
) -> LintReport:
    """Return *report* with the findings of the configs that are nested in *source*, linted by the linter of their kind.

    The refusal of the document because of its type is left out then, unless *is_read_by_kubelet* is set.
    """
    if source.document is None or _FOREIGN.isdisjoint(finding.code for finding in report.findings):
        return report
    found = list(find_nested(source))
    if not found:
        return report
    findings, providers, text = list(report.findings), report.providers, report.kubernetes_text
    if not is_read_by_kubelet:
        findings, text = [each for each in findings if each.code not in _FOREIGN], ""
    for nested in found:
        inner = linters[nested.kind](nested.data)
        providers += inner.providers
        text = text or inner.kubernetes_text
        findings.append(_pointer(nested).placed(report.path, source.document))
        places = _Places(nested, source.data, source.document)
        findings += [places.move(finding) for finding in inner.findings]
    return replace(report, findings=in_order(findings), providers=providers, kubernetes_text=text)


def _pointer(nested: NestedConfig) -> Finding:
    if nested.kind == PROVIDERS:
        message = "a provider config is nested here; a kubelet reads it only from a file of its own"
        return KF184.at(*nested.at, message=f"{message}. It is linted as one")
    message = "a FederationConfig is nested here; the plugin reads it only from a file of its own"
    return KF659.at(*nested.at, message=f"{message}. It is linted as one")


def find_nested(source: SourceFile) -> Iterator[NestedConfig]:
    """Yield the configs inside the document of *source*."""
    # Few files have any.
    if source.document is not None and any(kind.encode() in source.data for kind in _GROUPS):
        yield from _find(source.document.value, (), "")


def _find(value: object, at: Path, name: str) -> Iterator[NestedConfig]:
    if isinstance(value, dict):
        kind = _kind_of(value)
        if at and kind:
            yield NestedConfig(kind=kind, at=at, name=name, data=dumps(value).encode(), is_text=False)
            return
        path = value.get("path")
        for key, child in value.items():
            yield from _find(child, (*at, key), path if isinstance(path, str) else str(key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find(child, (*at, index), name)
    elif isinstance(value, str) and any(kind in value for kind in _GROUPS):
        kind = _kind_of(_read_text(value))
        if kind:
            yield NestedConfig(
                kind=kind, at=at, name=name, data=value.encode("utf-8", "surrogatepass"), is_text=True
            )


def _kind_of(value: object) -> str:
    """Return the kind of a config that is linted; empty for any other value."""
    if not isinstance(value, dict):
        return ""
    kind, version = str(value.get("kind", "")), str(value.get("apiVersion", ""))
    return kind if kind in _GROUPS and version.startswith(f"{_GROUPS[kind]}/") else ""


def _read_text(text: str) -> object:
    try:
        return read_document(text.encode("utf-8", "replace")).value
    except DocumentError:
        return None


class _Places:
    """The positions in a file of what is inside a nested config."""

    def __init__(self, nested: NestedConfig, data: bytes, document: Document) -> None:
        self._nested = nested
        self._start = document.position(nested.at)
        depth = len(nested.at)
        inside = (path for path in document.positions if path[:depth] == nested.at)
        self._positions = {format_path(path[depth:]): document.positions[path] for path in inside}
        self._outer = data.decode("utf-8", "replace").split("\n")
        self._inner = nested.data.decode("utf-8", "replace").split("\n")

    def move(self, finding: Finding) -> Finding:
        """Return *finding* with its path and position in the whole file; problems of the file itself stay."""
        if finding.line is None:
            return finding
        position = self._of_line(finding) if self._nested.is_text else self._of_path(finding.path)
        path = ".".join(filter(None, (format_path(self._nested.at), finding.path)))
        return replace(finding, path=path, line=position.line, column=position.column)

    def _of_path(self, path: str) -> Position:
        while path and path not in self._positions:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._positions.get(path, self._start)

    def _of_line(self, finding: Finding) -> Position:
        """Return the position of a line of a literal block; for other strings, that of the string."""
        line = finding.line or 1
        number = self._start.line + line
        inner = self._inner[line - 1] if line <= len(self._inner) else ""
        outer = self._outer[number - 1] if number <= len(self._outer) else ""
        if not inner or not outer.rstrip("\r").endswith(inner):
            return self._start
        indent = len(outer.rstrip("\r")) - len(inner)
        return Position(line=number, column=(finding.column or 1) + indent)
