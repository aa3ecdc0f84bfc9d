"""Configs inside other documents, such as a machine config of Talos, a file that cloud-init writes or a ConfigMap.

The config inside is linted, with the positions that it has there. A kubelet refuses the document itself, which is an
error only if a kubelet reads it: another tool takes the config out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from keyferry._core.documents import Document, read_document
from keyferry._core.json import dumps
from keyferry._core.paths import Path, format_path
from keyferry._core.positions import Position
from keyferry._core.values import Value, field, replace
from keyferry.api.federation.v1alpha1 import GROUP as KEYFERRY
from keyferry.api.federation.v1alpha1 import KIND as FEDERATION
from keyferry.api.kubeletconfig.v1 import GROUP as KUBELET
from keyferry.errors import DocumentError, Problem
from keyferry.images.config.read import CONFIG_KIND
from keyferry.lint.report import Finding, LintReport, finding_of, place_of

__all__ = ["NestedConfig", "add_nested", "find_nested"]

_GROUPS = {CONFIG_KIND: KUBELET, FEDERATION: KEYFERRY}
_POINTERS = {
    CONFIG_KIND: (
        "KF184",
        "a provider config is nested here; a kubelet reads it only from a file of its own",
    ),
    FEDERATION: (
        "KF659",
        "a FederationConfig is nested here; the plugin reads it only from a file of its own",
    ),
}
# The refusals of a document because of its type.
_FOREIGN = frozenset({"KF104", "KF105", "KF106"})


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


def add_nested(
    report: LintReport,
    data: bytes,
    linters: Mapping[str, Callable[[bytes], LintReport]],
    *,
    is_read_by_kubelet: bool = False,
) -> LintReport:
    """Return *report* with the findings of the configs that are nested in *data*, linted by the linter of their kind.

    The refusal of the document because of its type is left out then, unless *is_read_by_kubelet* is set.
    """
    if _FOREIGN.isdisjoint(finding.code for finding in report.findings):
        return report
    try:
        document = read_document(data)
    except DocumentError:
        return report
    found = list(_find(document.value, (), ""))
    if not found:
        return report
    findings, providers, text = list(report.findings), report.providers, report.kubernetes_text
    if not is_read_by_kubelet:
        findings, text = [each for each in findings if each.code not in _FOREIGN], ""
    for nested in found:
        inner = linters[nested.kind](nested.data)
        providers += inner.providers
        text = text or inner.kubernetes_text
        findings.append(_pointer(nested, report.path, document))
        places = _Places(nested, data, document)
        findings += [places.move(finding) for finding in inner.findings]
    ordered = tuple(sorted(dict.fromkeys(findings), key=place_of))
    return replace(report, findings=ordered, providers=providers, kubernetes_text=text)


def find_nested(data: bytes) -> Iterator[NestedConfig]:
    """Yield the configs inside the document *data*; none of a text that is not one."""
    # Few files have any, and a large document takes long to parse.
    if any(kind.encode() in data for kind in _GROUPS):
        try:
            document = read_document(data)
        except DocumentError:
            return
        yield from _find(document.value, (), "")


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
        kind = _kind_of(_read(value))
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


def _read(text: str) -> object:
    try:
        return read_document(text.encode("utf-8", "replace")).value
    except DocumentError:
        return None


def _pointer(nested: NestedConfig, file: str, document: Document) -> Finding:
    position, path = document.position(nested.at), format_path(nested.at)
    code, message = _POINTERS[nested.kind]
    problem = Problem(
        path,
        f"{message}. It is linted as one",
        code=code,
        file=file,
        line=position.line,
        column=position.column,
    )
    return finding_of(problem)


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
