"""Strict decoding as Kubernetes does it: unknown and duplicate fields are errors with a path.

A document is decoded in two steps. ``interpret`` reads its apiVersion and
kind, forgiving the case of their names as Go's decoder does; then a ``Reader``
takes typed values out of it and notes everything that is wrong, not just
the first thing. ``kubernetes_failure`` says which of those Kubernetes would name.
"""

import re

from keyferry._core.paths import Path, format_path
from keyferry.api.meta import decode_duration
from keyferry.errors import Detail, DurationError, Kind, Problem

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")
    Decode = Callable[[object, Path], T]

# Kubernetes keeps at most this many strict errors of one document.
_MOST_STRICT_ERRORS = 100
# The nameless type that Kubernetes reads apiVersion and kind into, as Go prints it.
_TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
# What a hostile document can make us remember; beyond it only the first value that does not fit matters.
_MOST_PROBLEMS = 1000


class Reader:
    """Takes typed values out of one document and notes what is wrong with it.

    ``duplicates`` are the paths of repeated keys in a JSON document. For YAML,
    where Kubernetes decodes from a sorted intermediate form, ``sort_keys`` makes
    the problems come in the same order. A ``lenient`` reader passes over unknown fields.
    """

    __slots__ = ("_duplicates", "_has_misfit", "_lenient", "_sort_keys", "problems")

    def __init__(
        self, duplicates: "tuple[Path, ...]" = (), *, sort_keys: bool = False, lenient: bool = False
    ) -> None:
        self._duplicates = frozenset(duplicates)
        self._sort_keys = sort_keys
        self._lenient = lenient
        self._has_misfit = False
        self.problems: list[tuple[Path, Problem]] = []

    def struct(self, value: object, path: "Path", fields: "Mapping[str, Decode[Any]]") -> "dict[str, Any]":
        """The known *fields* of an object; null gives none of them."""
        taken: dict[str, Any] = {}
        for name, item in self._items(value, path, "object"):
            decode = fields.get(name)
            if decode is not None:
                taken[name] = decode(item, (*path, name))
            elif not self._lenient:
                self._unknown((*path, name))
        return taken

    def map_of(self, decode: "Decode[T]") -> "Decode[dict[str, T] | None]":
        """A decoder for an object with free keys; null gives None."""

        def decode_map(value: object, path: "Path") -> "dict[str, T] | None":
            if value is None:
                return None
            return {name: decode(item, (*path, name)) for name, item in self._items(value, path, "object")}

        return decode_map

    def list_of(self, decode: "Decode[T]") -> "Decode[list[T] | None]":
        """A decoder for an array; null gives None."""

        def decode_list(value: object, path: "Path") -> "list[T] | None":
            if value is None:
                return None
            if not isinstance(value, list):
                self._wrong_type(value, path, "array")
                return None
            return [decode(item, (*path, index)) for index, item in enumerate(value)]

        return decode_list

    def text(self, value: object, path: "Path") -> str:
        """A string; null gives the empty one."""
        if isinstance(value, str):
            return value
        if value is not None:
            self._wrong_type(value, path, "string")
        return ""

    def boolean(self, value: object, path: "Path") -> bool | None:
        """A boolean; null gives None."""
        if value is None or isinstance(value, bool):
            return value
        self._wrong_type(value, path, "boolean")
        return None

    def duration(self, value: object, path: "Path") -> int | None:
        """A Go duration in nanoseconds; null gives None."""
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

    def data(self, value: object, path: "Path") -> bytes:
        """Bytes written as base64; null gives none. Go passes over line ends and wants the padding."""
        from keyferry._core.base64 import corrupt_input_text, decode_base64

        text = self.text(value, path).encode("utf-8", "surrogatepass")
        data = decode_base64(text)
        if data is None:
            self.note(path, "the value is not base64", corrupt_input_text(text), Kind.BASE64)
        return data or b""

    def anything(self, value: object, path: "Path") -> object:  # noqa: ARG002 - the shape of a decoder
        """Any value at all, unchecked."""
        return value

    def _items(self, value: object, path: "Path", expected: str) -> "list[tuple[str, object]]":
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

    def _unknown(self, path: "Path") -> None:
        shown = format_path(path)
        self.note(path, "unknown field", f'unknown field "{shown}"', Kind.STRICT, Detail.UNKNOWN_FIELD)

    def _duplicate(self, path: "Path") -> None:
        shown = format_path(path)
        text = f'duplicate field "{shown}"'
        self.note(path, "the key is given more than once", text, Kind.STRICT, Detail.REPEATED_FIELD)

    def _wrong_type(self, value: object, path: "Path", expected: str) -> None:
        found = json_type(value)
        message = f"found {article(found)}, expected {article(expected)}"
        text = f"json: cannot unmarshal {found} into Go struct field {format_path(path)}"
        self.note(path, message, text, Kind.WRONG_TYPE, detail_of(found, expected))

    def note(
        self, path: "Path", message: str, kubernetes_text: str, kind: Kind, detail: Detail = Detail.NONE
    ) -> None:
        """Note a problem with the value at *path*."""
        if len(self.problems) >= _MOST_PROBLEMS and (kind is Kind.STRICT or self._has_misfit):
            return
        self._has_misfit = self._has_misfit or kind is not Kind.STRICT
        problem = Problem(
            format_path(path), message, kubernetes_text=kubernetes_text, kind=kind, detail=detail
        )
        self.problems.append((path, problem))


def kubernetes_failure(problems: "list[tuple[Path, Problem]]", yaml_duplicates: str = "") -> Problem | None:
    """The one failure Kubernetes reports: the first value that does not fit, else all strict errors in a row.

    *yaml_duplicates* is its complaint about repeated keys of a YAML document, which comes first.
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
    """The apiVersion and kind of a document; both empty if it is null or has none.

    Raises :class:`WrongTypeError` where Kubernetes could not read them.
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
    """apiVersion or kind, or the whole document, has the wrong JSON type.

    ``decoder_text`` is ``kubernetes_text`` without the stage at which it was found.
    """

    def __init__(self, field: str, found: str, expected: str) -> None:
        super().__init__(field, found, expected)
        self.field = field
        self.message = f"found {article(found)}, expected {article(expected)}"
        into = f"struct field .{field} of type string" if field else f"value of type {_TYPE_META}"
        self.detail = detail_of(found, expected)
        self.decoder_text = f"json: cannot unmarshal {found} into Go {into}"
        self.kubernetes_text = f"couldn't get version/kind; json parse error: {self.decoder_text}"


def aggregate(texts: "Iterable[str]") -> str:
    """How Kubernetes makes one text of several errors."""
    distinct = list(dict.fromkeys(texts))
    return "".join(distinct) if len(distinct) <= 1 else f"[{', '.join(distinct)}]"


def shown_api_version(api_version: str) -> str:
    """An apiVersion for a message: quoted only if it is Kubernetes' own, for what stands there may be a secret."""
    if re.fullmatch(r"(?:[a-z.]{1,50}\.k8s\.io/)?v[0-9]{1,2}(?:(?:alpha|beta)[0-9]{1,2})?", api_version):
        return repr(api_version)
    return "something else" if api_version else "none"


def json_type(value: object) -> str:
    """What Go's decoder calls the type of a JSON value."""
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
    """What a value of the JSON type *found* is, where another was expected."""
    if expected != "string":
        return Detail.NONE
    return Detail.NO_TEXT if found in ("object", "array") else Detail.SCALAR_FOR_TEXT


def article(noun: str) -> str:
    """*noun* with its indefinite article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
