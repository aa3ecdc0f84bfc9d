"""Strict decoding as in Kubernetes: unknown and duplicate fields are errors with a path.

A document is decoded in two steps. ``interpret`` reads its apiVersion and
kind and ignores the case of these names, as Go's decoder does. A ``Reader``
then reads typed values from the document and collects all problems, not only
the first. ``kubernetes_failure`` returns the problem that Kubernetes would report.
"""

from __future__ import annotations

from keyferry._core.paths import Path, format_path
from keyferry.api.meta import decode_duration
from keyferry.errors import Detail, DurationError, Kind, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")
    Decode = Callable[[object, Path], T]

# Kubernetes reports at most this many strict errors of one document.
_MOST_STRICT_ERRORS = 100
# The anonymous type that Kubernetes decodes apiVersion and kind into, as Go prints it.
_TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
# Bounds the memory that a hostile document takes; beyond it, only the first value of a wrong type is recorded.
_MOST_PROBLEMS = 1000


class Reader:
    """A decoder that reads typed values from one document and collects its problems.

    ``duplicates`` are the paths of repeated keys in a JSON document. For YAML, which
    Kubernetes decodes from a sorted intermediate form, ``sort_keys`` puts the problems
    in the same order. A ``lenient`` reader ignores unknown fields.
    """

    __slots__ = ("_duplicates", "_has_misfit", "_lenient", "_sort_keys", "problems")

    def __init__(
        self, duplicates: tuple[Path, ...] = (), *, sort_keys: bool = False, lenient: bool = False
    ) -> None:
        self._duplicates = frozenset(duplicates)
        self._sort_keys = sort_keys
        self._lenient = lenient
        self._has_misfit = False
        self.problems: list[tuple[Path, Problem]] = []

    def struct(self, value: object, path: Path, fields: Mapping[str, Decode[Any]]) -> dict[str, Any]:
        """Return the known *fields* of an object; for null, an empty dictionary."""
        taken: dict[str, Any] = {}
        for name, item in self._items(value, path, "object"):
            decode = fields.get(name)
            if decode is not None:
                taken[name] = decode(item, (*path, name))
            elif not self._lenient:
                self._unknown((*path, name))
        return taken

    def map_of(self, decode: Decode[T]) -> Decode[dict[str, T] | None]:
        """Return a decoder for an object with arbitrary keys; it returns None for null."""

        def decode_map(value: object, path: Path) -> dict[str, T] | None:
            if value is None:
                return None
            return {name: decode(item, (*path, name)) for name, item in self._items(value, path, "object")}

        return decode_map

    def list_of(self, decode: Decode[T]) -> Decode[list[T] | None]:
        """Return a decoder for an array; it returns None for null."""

        def decode_list(value: object, path: Path) -> list[T] | None:
            if value is None:
                return None
            if not isinstance(value, list):
                self._wrong_type(value, path, "array")
                return None
            return [decode(item, (*path, index)) for index, item in enumerate(value)]

        return decode_list

    def text(self, value: object, path: Path) -> str:
        """Read a string; null is read as the empty string."""
        if isinstance(value, str):
            return value
        if value is not None:
            self._wrong_type(value, path, "string")
        return ""

    def boolean(self, value: object, path: Path) -> bool | None:
        """Read a boolean; null is read as None."""
        if value is None or isinstance(value, bool):
            return value
        self._wrong_type(value, path, "boolean")
        return None

    def duration(self, value: object, path: Path) -> int | None:
        """Read a Go duration in nanoseconds; null is read as None."""
        if value is None:
            return None
        try:
            return decode_duration(value)
        except DurationError as error:
            if not isinstance(value, str):
                self._wrong_type(value, path, "string holding a duration such as '10m'")
            else:
                self.note(path, error.message, error.kubernetes_text, Kind.DURATION)
        return None

    def data(self, value: object, path: Path) -> bytes:
        """Read bytes in base64; null is read as no bytes. As in Go, newlines are ignored and padding is required."""
        from keyferry._core.base64 import corrupt_input_text, decode_base64

        text = self.text(value, path).encode("utf-8", "surrogatepass")
        data = decode_base64(text)
        if data is None:
            self.note(path, "the value is not base64", corrupt_input_text(text), Kind.BASE64)
        return data or b""

    def anything(self, value: object, path: Path) -> object:  # noqa: ARG002 - the shape of a decoder
        """Return *value* unchecked."""
        return value

    def _items(self, value: object, path: Path, expected: str) -> list[tuple[str, object]]:
        if value is None:
            return []
        if not isinstance(value, dict):
            self._wrong_type(value, path, expected)
            return []
        if self._duplicates:
            for name in value:
                if (*path, name) in self._duplicates:
                    self._duplicate((*path, name))
        return sorted(value.items()) if self._sort_keys else list(value.items())

    def _unknown(self, path: Path) -> None:
        shown = format_path(path)
        self.note(path, "unknown field", f'unknown field "{shown}"', Kind.STRICT, Detail.UNKNOWN_FIELD)

    def _duplicate(self, path: Path) -> None:
        shown = format_path(path)
        text = f'duplicate field "{shown}"'
        self.note(path, "the key is given more than once", text, Kind.STRICT, Detail.REPEATED_FIELD)

    def _wrong_type(self, value: object, path: Path, expected: str) -> None:
        found = json_type(value)
        message = f"found {article(found)}, expected {article(expected)}"
        text = f"json: cannot unmarshal {found} into Go struct field {format_path(path)}"
        self.note(path, message, text, Kind.WRONG_TYPE, detail_of(found, expected))

    def note(
        self, path: Path, message: str, kubernetes_text: str, kind: Kind, detail: Detail = Detail.NONE
    ) -> None:
        """Record a problem with the value at *path*."""
        if len(self.problems) >= _MOST_PROBLEMS and (kind is Kind.STRICT or self._has_misfit):
            return
        self._has_misfit = self._has_misfit or kind is not Kind.STRICT
        problem = Problem(
            format_path(path), message, kubernetes_text=kubernetes_text, kind=kind, detail=detail
        )
        self.problems.append((path, problem))


def kubernetes_failure(problems: list[tuple[Path, Problem]], yaml_duplicates: str = "") -> Problem | None:
    """Return the failure that Kubernetes reports: the first value of a wrong type, else all strict errors joined.

    *yaml_duplicates* is Kubernetes' text for repeated keys of a YAML document, which comes first.
    """
    for _, problem in problems:
        if problem.kind is not Kind.STRICT:
            return problem
    texts = list(dict.fromkeys(problem.kubernetes_text for _, problem in problems))[:_MOST_STRICT_ERRORS]
    if yaml_duplicates:
        texts.insert(0, yaml_duplicates)
    if not texts:
        return None
    text = "strict decoding error: " + ", ".join(texts)
    return Problem("", "the document has unknown or repeated fields", kubernetes_text=text, kind=Kind.STRICT)


def interpret(document: object) -> tuple[str, str]:
    """Return the apiVersion and kind of a document, each empty if it is missing.

    Raise :class:`WrongTypeError` where Kubernetes cannot read them.
    """
    if document is None:
        return "", ""
    if not isinstance(document, dict):
        raise WrongTypeError("", json_type(document), "object")
    found = {"apiversion": "", "kind": ""}
    for name, value in document.items():
        folded = name.lower()
        if folded in found and value is not None:
            if not isinstance(value, str):
                raise WrongTypeError(name, json_type(value), "string")
            found[folded] = value
    return found["apiversion"], found["kind"]


class WrongTypeError(Exception):
    """apiVersion, kind or the whole document has the wrong JSON type.

    ``decoder_text`` is ``kubernetes_text`` without the prefix that names the stage.
    """

    def __init__(self, field: str, found: str, expected: str) -> None:
        super().__init__(field, found, expected)
        self.field = field
        self.message = f"found {article(found)}, expected {article(expected)}"
        into = f"struct field .{field} of type string" if field else f"value of type {_TYPE_META}"
        self.detail = detail_of(found, expected)
        self.decoder_text = f"json: cannot unmarshal {found} into Go {into}"
        self.kubernetes_text = f"couldn't get version/kind; json parse error: {self.decoder_text}"


def aggregate(texts: Iterable[str]) -> str:
    """Return the text of several errors, joined as in Kubernetes."""
    distinct = list(dict.fromkeys(texts))
    return "".join(distinct) if len(distinct) <= 1 else f"[{', '.join(distinct)}]"


def shown_api_version(api_version: str) -> str:
    """Return an apiVersion for a message; one without Kubernetes' form is not shown, since it may be a secret."""
    import re  # imported here: it takes as long as a tenth of a command

    if re.fullmatch(r"(?:[a-z.]{1,50}\.k8s\.io/)?v[0-9]{1,2}(?:(?:alpha|beta)[0-9]{1,2})?", api_version):
        return repr(api_version)
    return "something else" if api_version else "none"


def json_type(value: object) -> str:
    """Return the name of a JSON value's type, as Go's decoder prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


def detail_of(found: str, expected: str) -> Detail:
    """Return the detail of a problem: a value of the JSON type *found* in place of *expected*."""
    if expected != "string":
        return Detail.NONE
    return Detail.NO_TEXT if found in ("object", "array") else Detail.SCALAR_FOR_TEXT


def article(noun: str) -> str:
    """Return *noun* with its indefinite article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
