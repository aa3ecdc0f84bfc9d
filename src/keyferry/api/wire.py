"""Declare how the fields of a value stand in a document, and read and write documents by these declarations.

A field names its place and its shape: ``args: tuple[str, ...] = wire("args", list_of(text), default=())``. A value is
read strictly, as in Kubernetes: a ``Reader`` collects all unknown, repeated and wrongly typed fields of the document,
each with its path and with Kubernetes' text. A field that is absent or null has its default.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from json import JSONDecoder

from keyferry._core.base64 import corrupt_input_text, decode_base64
from keyferry._core.json import dumps, loads
from keyferry._core.paths import Path, format_path
from keyferry._core.type_forms import Generic, T, dataclass_transform
from keyferry._core.values import Value, field
from keyferry.api.meta import (
    NO_TIME_NS,
    article,
    decode_duration,
    format_duration,
    format_time,
    json_type,
    parse_time,
)
from keyferry.errors import Detail, DurationError, Kind, Problem, TimeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, TypeVar

    U = TypeVar("U")
    V = TypeVar("V", bound="WireValue")
    W = TypeVar("W", bound=StrEnum)

__all__ = ["Reader", "WireValue"]

# Bounds the memory that a hostile document takes; beyond it, only the first value of a wrong type is recorded.
MAX_PROBLEMS = 1000


class Reader:
    """Collects the problems of one document while values are read from it.

    ``duplicates`` are the paths of repeated keys in a JSON document. For YAML, which Kubernetes decodes from a sorted
    intermediate form, ``sort_keys`` puts the problems in the same order. A ``lenient`` reader ignores unknown fields.
    ``text`` is the JSON text of the document, for values that are kept as they are written.
    """

    __slots__ = ("_duplicates", "_has_misfit", "_lenient", "_sort_keys", "api_version", "problems", "text")

    def __init__(
        self,
        duplicates: Iterable[Path] = (),
        *,
        sort_keys: bool = False,
        lenient: bool = False,
        text: str = "",
    ) -> None:
        self._duplicates = frozenset(duplicates)
        self._sort_keys = sort_keys
        self._lenient = lenient
        self._has_misfit = False
        self.api_version = ""
        self.text = text
        self.problems: list[tuple[Path, Problem]] = []

    def struct(self, value: object, path: Path, fields: Mapping[str, Shape[Any]]) -> dict[str, Any]:
        """Return those of the known *fields* that an object has and that are not null."""
        taken: dict[str, Any] = {}
        for name, item in self.members(value, path):
            shape = fields.get(name)
            if shape is not None:
                found = shape.read(self, item, (*path, name))
                if found is not None:
                    taken[name] = found
            elif not self._lenient:
                at = (*path, name)
                text = f'unknown field "{format_path(at)}"'
                self.note(at, "unknown field", text, Kind.STRICT, Detail.UNKNOWN_FIELD)
        return taken

    def members(self, value: object, path: Path) -> list[tuple[str, object]]:
        """Return the members of an object; none of null."""
        if value is None:
            return []
        if not isinstance(value, dict):
            self.wrong_type(value, path, "object")
            return []
        for name in value if self._duplicates else ():
            at = (*path, name)
            if at in self._duplicates:
                text = f'duplicate field "{format_path(at)}"'
                self.note(at, "the key is given more than once", text, Kind.STRICT, Detail.REPEATED_FIELD)
        return sorted(value.items()) if self._sort_keys else list(value.items())

    def wrong_type(self, value: object, path: Path, expected: str) -> None:
        """Record that the value at *path* has another type than the *expected* one."""
        found = json_type(value)
        message = f"found {article(found)}, expected {article(expected)}"
        text = f"json: cannot unmarshal {found} into Go struct field {format_path(path)}"
        self.note(path, message, text, Kind.WRONG_TYPE, detail_of(found, expected))

    def note(
        self, path: Path, message: str, kubernetes_text: str, kind: Kind, detail: Detail = Detail.NONE
    ) -> None:
        """Record a problem with the value at *path*."""
        if len(self.problems) >= MAX_PROBLEMS and (kind is Kind.STRICT or self._has_misfit):
            return
        self._has_misfit = self._has_misfit or kind is not Kind.STRICT
        problem = Problem(
            format_path(path), message, kubernetes_text=kubernetes_text, kind=kind, detail=detail
        )
        self.problems.append((path, problem))


class Shape(Generic[T]):
    """How a value stands in a document.

    ``read`` returns None for null, and for a value that does not fit, which it reports to the reader. ``write`` returns
    what stands in a document of an API version. ``zero`` makes what stands for null in a list or map. ``title`` names
    the shape in documentation, and ``of`` is that of its items.
    """

    __slots__ = ("of", "read", "title", "write", "zero")

    def __init__(
        self,
        title: str,
        read: Callable[[Reader, object, Path], T | None],
        write: Callable[[T, str], object],
        zero: Callable[[], T],
        of: Shape[Any] | type[WireValue] | None = None,
    ) -> None:
        self.title = title
        self.read = read
        self.write = write
        self.zero = zero
        self.of = of

    def read_item(self, reader: Reader, value: object, path: Path) -> T:
        """Read an item of a list or map, which is never None."""
        found = self.read(reader, value, path)
        return self.zero() if found is None else found

    def then(self, convert: Callable[[T], U], back: Callable[[U], T]) -> Shape[U]:
        """Return the shape of values that are converted after they are read, and *back* before they are written."""

        def read(reader: Reader, value: object, path: Path) -> U | None:
            found = self.read(reader, value, path)
            return None if found is None else convert(found)

        def write(value: U, api_version: str) -> object:
            return self.write(back(value), api_version)

        return Shape(self.title, read, write, lambda: convert(self.zero()), self.of)


class WireField(Value):
    """The place and shape of a field in documents.

    A field that has its default, and an empty list or map, is omitted unless it is *always* written. *absent_from* are
    the API versions without the field.
    """

    name: str
    shape: Shape[Any]
    always: bool = False
    absent_from: tuple[str, ...] = ()


def wire(
    name: str, shape: Shape[T], *, always: bool = False, absent_from: tuple[str, ...] = (), **options: Any
) -> T:
    """Declare a field that stands in documents as *name*; *options* are those of ``field``."""
    metadata = WireField(name=name, shape=shape, always=always, absent_from=absent_from)
    declared: T = field(metadata=metadata, **options)
    return declared


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire, field))
class WireValue(Value):
    """The base of values that are read from documents and written to them."""

    if TYPE_CHECKING:
        wire_fields: ClassVar[dict[str, WireField]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.wire_fields = {
            name: each.metadata for name, each in cls._fields.items() if isinstance(each.metadata, WireField)
        }

    @classmethod
    def from_document(cls, document: object, reader: Reader, api_version: str = "") -> Self:
        """Return the value in *document*, which also has a kind and apiVersion; *reader* collects the problems.

        In an old *api_version*, the fields that it does not have are unknown.
        """
        reader.api_version = api_version
        return read_object(cls, reader, document, (), {"kind": text, "apiVersion": text})

    def to_document(self, api_version: str = "") -> dict[str, object]:
        """Return the document of this value in *api_version*, without kind and apiVersion."""
        document: dict[str, object] = {}
        for name, each in self.wire_fields.items():
            value = getattr(self, name)
            written = None if value is None else each.shape.write(value, api_version)
            is_default = value is None or value == self._fields[name].default
            is_empty = written in ([], {}) and not isinstance(value, WireValue)
            if api_version not in each.absent_from and (each.always or not (is_default or is_empty)):
                document[each.name] = written
        return document


def read_object(
    cls: type[V], reader: Reader, value: object, path: Path, also: Mapping[str, Shape[Any]] | None = None
) -> V:
    """Return the value of an object; its fields are those of *cls*, and *also* others that are not kept."""
    declared = {
        each.name: (name, each.shape)
        for name, each in cls.wire_fields.items()
        if reader.api_version not in each.absent_from
    }
    known = {**(also or {}), **{name: shape for name, (_, shape) in declared.items()}}
    found = reader.struct(value, path, known)
    return cls(**{declared[name][0]: item for name, item in found.items() if name in declared})


def object_of(cls: type[V]) -> Shape[V]:
    """Return the shape of an object."""

    def read(reader: Reader, value: object, path: Path) -> V | None:
        return None if value is None else read_object(cls, reader, value, path)

    return Shape("object", read, lambda value, api_version: value.to_document(api_version), cls, cls)


def list_of(item: Shape[T]) -> Shape[tuple[T, ...]]:
    """Return the shape of a list."""

    def read(reader: Reader, value: object, path: Path) -> tuple[T, ...] | None:
        if isinstance(value, list):
            return tuple([item.read_item(reader, each, (*path, at)) for at, each in enumerate(value)])
        if value is not None:
            reader.wrong_type(value, path, "array")
        return None

    def write(values: tuple[T, ...], api_version: str) -> object:
        return [item.write(each, api_version) for each in values]

    return Shape("list", read, write, tuple, item)


def map_of(item: Shape[T]) -> Shape[Mapping[str, T]]:
    """Return the shape of an object with arbitrary names, which are written sorted, as in Go."""

    def read(reader: Reader, value: object, path: Path) -> Mapping[str, T] | None:
        if value is None:
            return None
        members = reader.members(value, path)
        return {name: item.read_item(reader, each, (*path, name)) for name, each in members}

    def write(values: Mapping[str, T], api_version: str) -> object:
        return {name: item.write(each, api_version) for name, each in sorted(values.items())}

    return Shape("map", read, write, dict, item)


def one_of(words: type[W]) -> Shape[W]:
    """Return the shape of one word of a closed set."""

    def read(reader: Reader, value: object, path: Path) -> W | None:
        found = text.read_item(reader, value, path)
        if found in list(words):
            return words(found)
        message = f"found {found[:40]!r}, expected one of {', '.join(words)}"
        reader.note(path, message, message, Kind.OTHER)
        return None

    return Shape(f"one of {', '.join(words)}", read, lambda word, _: str(word), lambda: next(iter(words)))


def _keep(value: T, _api_version: str) -> T:
    return value


def _read_text(reader: Reader, value: object, path: Path) -> str | None:
    if value is None or isinstance(value, str):
        return value
    reader.wrong_type(value, path, "string")
    return None


def _read_boolean(reader: Reader, value: object, path: Path) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    reader.wrong_type(value, path, "boolean")
    return None


def _read_number(reader: Reader, value: object, path: Path) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = "a negative number" if isinstance(value, int) and value is not True else article(json_type(value))
    message = f"found {found}, expected {number.title}"
    reader.note(path, message, message, Kind.WRONG_TYPE)
    return None


def _read_duration(reader: Reader, value: object, path: Path) -> int | None:
    if value is None:
        return None
    try:
        return decode_duration(value)
    except DurationError as error:
        if not isinstance(value, str):
            reader.wrong_type(value, path, "string holding a duration such as '10m'")
        else:
            reader.note(path, error.message, error.kubernetes_text, Kind.DURATION)
    return None


def _time(*, quoting: bool) -> Shape[int]:
    """Return the shape of a time, in nanoseconds since 1970; Go's zero time means that none is set."""

    def read(reader: Reader, value: object, path: Path) -> int | None:
        found = _read_text(reader, value, path)
        if found is None:
            return None
        try:
            nanoseconds = parse_time(found)
        except TimeError as error:
            message = error.message if quoting else "not an RFC 3339 time such as '2006-01-02T15:04:05Z'"
            reader.note(path, message, error.kubernetes_text, Kind.TIME)
            return None
        return None if nanoseconds == NO_TIME_NS else nanoseconds

    return Shape("time", read, lambda ns, _: None if ns == NO_TIME_NS else format_time(ns), int)


def _read_base64(reader: Reader, value: object, path: Path) -> bytes | None:
    encoded = text.read_item(reader, value, path).encode("utf-8", "surrogatepass")
    data = decode_base64(encoded)
    if data is None:
        reader.note(path, "the value is not base64", corrupt_input_text(encoded), Kind.BASE64)
    return data


def _read_json(reader: Reader, value: object, path: Path) -> str | None:
    if value is None:
        return None
    return _text_at(reader.text, path) if reader.text else _encode_json(value)


text = Shape("text", _read_text, _keep, str)
boolean = Shape("`true` or `false`", _read_boolean, _keep, bool)
number = Shape("a whole number that is not negative", _read_number, _keep, int)
# Durations in nanoseconds, in Go's syntax.
duration = Shape("duration", _read_duration, lambda ns, _: format_duration(ns), int)
time = _time(quoting=True)
# Its messages do not quote the value: a plugin may have put its token there.
unquoted_time = _time(quoting=False)
# As in Go, newlines are ignored and padding is required.
base64 = Shape("base64", _read_base64, lambda data, _: b2a_base64(data, newline=False).decode(), bytes)
anything: Shape[object] = Shape("anything", lambda _, value, __: value, _keep, lambda: None)
# Any value, as JSON text: as it is written in JSON, or compact with sorted keys, as Kubernetes converts YAML.
json_text = Shape("anything", _read_json, lambda text, _: loads(text), lambda: "null")


def _encode_json(value: object) -> str:
    text = dumps(json.loads(json.dumps(value, sort_keys=True)))
    return re.sub(r'"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*', lambda match: _format_number(match[0]), text)


def _format_number(token: str) -> str:
    if token[0] == '"' or not any(mark in token for mark in ".eE"):
        return token
    # Go writes an exponent below 1e-6, Python below 1e-4; Go does not pad the exponent with a zero.
    from decimal import Decimal

    tiny = abs(Decimal(token)) < Decimal("1e-6")
    return token.replace("e-0", "e-") if tiny or "e+" in token else f"{Decimal(token):f}"


def _text_at(text: str, path: Path) -> str:
    """Return the text of one member of valid JSON, exactly as written; the last of several equal names counts."""
    decode = JSONDecoder().raw_decode
    start, end = _skip_blanks(text, 0), len(text)
    for name in path:
        at = _skip_blanks(text, start + 1)
        while text[at] != "}":
            found, at = decode(text, at)
            value_at = _skip_blanks(text, _skip_blanks(text, at) + 1)
            _, value_end = decode(text, value_at)
            if found == name:
                start, end = value_at, value_end
            at = _skip_blanks(text, value_end)
            at = _skip_blanks(text, at + 1) if text[at] == "," else at
    return text[start:end]


def _skip_blanks(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def detail_of(found: str, expected: str) -> Detail:
    """Return the detail of a problem: a value of the JSON type *found* in place of *expected*."""
    if expected != "string":
        return Detail.NONE
    return Detail.NO_TEXT if found in ("object", "array") else Detail.SCALAR_FOR_TEXT
