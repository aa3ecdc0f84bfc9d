"""Provider configs inside other documents, such as a machine config of Talos or a file that cloud-init writes.

The config inside is linted, with the positions that it has there. A kubelet refuses the document itself, which is an
error only if a kubelet reads it: another tool takes the config out of it.
"""

from collections.abc import Callable, Iterator

from keyferry._core.documents import Document, read_document
from keyferry._core.json import dumps
from keyferry._core.paths import Path, format_path
from keyferry._core.positions import Position
from keyferry._core.values import Value, field, replace
from keyferry.api.kubeletconfig.v1 import GROUP
from keyferry.errors import DocumentError, Problem
from keyferry.images.config.decode import CONFIG_KIND
from keyferry.lint.report import Finding, LintReport, finding_of, place_of

__all__ = ["add_nested"]

_NESTED = "KF184"
# The refusals of a document because of its type.
_FOREIGN = frozenset({"KF104", "KF105", "KF106"})


class _Nested(Value):
    """A config inside a document: its path there, and its own text; *is_text* if the document has it as a string."""

    at: Path
    data: bytes = field(repr=False)
    is_text: bool


def add_nested(
    report: LintReport, data: bytes, lint: Callable[[bytes], LintReport], *, is_read_by_kubelet: bool = False
) -> LintReport:
    """Return *report* with the findings of the configs that are nested in *data*, each of them linted by *lint*.

    The refusal of the document because of its type is left out then, unless *is_read_by_kubelet* is set.
    """
    if _FOREIGN.isdisjoint(finding.code for finding in report.findings):
        return report
    try:
        document = read_document(data)
    except DocumentError:
        return report
    found = list(_find(document.value, ()))
    if not found:
        return report
    findings, providers, text = list(report.findings), report.providers, report.kubernetes_text
    if not is_read_by_kubelet:
        findings, text = [each for each in findings if each.code not in _FOREIGN], ""
    for nested in found:
        inner = lint(nested.data)
        providers += inner.providers
        text = text or inner.kubernetes_text
        findings.append(_pointer(nested, report.path, document))
        places = _Places(nested, data, document)
        findings += [places.move(finding) for finding in inner.findings]
    ordered = tuple(sorted(dict.fromkeys(findings), key=place_of))
    return replace(report, findings=ordered, providers=providers, kubernetes_text=text)


def _find(value: object, at: Path) -> Iterator[_Nested]:
    if isinstance(value, dict):
        if at and _is_config(value):
            yield _Nested(at, dumps(value).encode(), is_text=False)
            return
        for key, child in value.items():
            yield from _find(child, (*at, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find(child, (*at, index))
    elif isinstance(value, str) and CONFIG_KIND in value and _is_config(_read(value)):
        yield _Nested(at, value.encode("utf-8", "surrogatepass"), is_text=True)


def _is_config(value: object) -> bool:
    if not isinstance(value, dict) or value.get("kind") != CONFIG_KIND:
        return False
    return str(value.get("apiVersion", "")).startswith(f"{GROUP}/")


def _read(text: str) -> object:
    try:
        return read_document(text.encode("utf-8", "replace")).value
    except DocumentError:
        return None


def _pointer(nested: _Nested, file: str, document: Document) -> Finding:
    position, path = document.position(nested.at), format_path(nested.at)
    message = "a provider config is nested here; a kubelet reads it only from a file of its own. It is linted as one"
    problem = Problem(path, message, code=_NESTED, file=file, line=position.line, column=position.column)
    return finding_of(problem)


class _Places:
    """The positions in a file of what is inside a nested config."""

    def __init__(self, nested: _Nested, data: bytes, document: Document) -> None:
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
        return Position(number, (finding.column or 1) + indent)
