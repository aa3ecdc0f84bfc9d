"""Read YAML or JSON text as Kubernetes does, and keep the position of every value."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from enum import StrEnum
from json import JSONDecoder
from math import inf

from keyferry._core import json as _json
from keyferry._core.json import RepeatedNameError, refuse_repeats
from keyferry._core.paths import Path
from keyferry._core.positions import MAX_DOCUMENT_DEPTH, DuplicateKey, Position, PositionNode, Positions
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError, Kind

# What Go's unicode.IsSpace accepts; Python's str.isspace differs.
_BLANK = r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*"
_ASCII_BLANK = b"\t\n\v\f\r "
# The characters of JSON that is read without a YAML parser: printable ASCII and line feeds, but no backslash.
_COMMON = bytes({*range(0x20, 0x7F), 0x0A} - {0x5C})
_MAX_BRACKETS = 100
_MAX_DIGITS = 18  # any number of so many digits fits in 64 bits
# A YAML key has at most 1024 characters, its quotes and the colon included.
_MAX_KEY = 1000
_PIECE = r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]|[^\s\[\]{},:"]+'


class DocumentFormat(StrEnum):
    """The formats of documents; some rules of Kubernetes depend on them."""

    JSON = "json"
    YAML = "yaml"


class Document(Value):
    """The value of a text and the positions in it; the value may hold secrets, so ``repr`` leaves it out.

    Mapping keys are always strings. There is a position for each key and each list item, and ``()`` for the whole.
    """

    value: object = field(repr=False)
    positions: Mapping[Path, Position] = field(repr=False)
    duplicates: tuple[DuplicateKey, ...]
    format: DocumentFormat

    def position(self, path: Path) -> Position:
        """Return the position of *path* or of its nearest known ancestor."""
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions[path]


def is_json(data: bytes) -> bool:
    """Return whether the first character that is not blank is ``{``; any other text is YAML."""
    first = data.lstrip(_ASCII_BLANK)[:1]
    if first.isascii():
        return first == b"{"
    return re.match(_BLANK + "{", _json.decode_utf8(data)) is not None


def read_document(data: bytes, *, quoting: bool = False) -> Document:
    """Read *data* as JSON or as YAML 1.1, depending on its first character.

    With *quoting*, the ``kubernetes_text`` of an error quotes what Kubernetes quotes. Use it for files that people
    write, never for the output of a plugin.
    """
    return read_json(data, quoting=quoting) if is_json(data) else read_yaml(data, quoting=quoting)


def read_json(data: bytes, *, quoting: bool = False) -> Document:
    """Read exactly one JSON value."""
    value, repeated = _json.loads_with_duplicates(data, quoting=quoting)
    scanner = _Scanner(_json.decode_utf8(data))
    if not repeated and not _is_deep(value):
        # Positions are needed only to report problems, so a document without problems is not scanned.
        return Document(
            value=value, positions=Positions(scanner.place_all), duplicates=(), format=DocumentFormat.JSON
        )
    scanner.run()
    return Document(
        value=value,
        positions=Positions(scanner.root),
        duplicates=tuple(scanner.duplicates),
        format=DocumentFormat.JSON,
    )


def read_yaml(data: bytes, *, quoting: bool = False, until: float = inf) -> Document:
    """Read the first document of a YAML 1.1 stream, by go-yaml's rules.

    Raises TimeoutError if the instant *until* of the monotonic clock passes first.
    """
    is_read, value = _read_common(data)
    if is_read:
        return Document(
            value=value,
            positions=Positions(_Scanner(data.decode("ascii")).place_all),
            duplicates=(),
            format=DocumentFormat.YAML,
        )
    from keyferry._core.yaml import load

    value, root, duplicates = load(data, quoting=quoting, until=until)
    return Document(value=value, positions=Positions(root), duplicates=duplicates, format=DocumentFormat.YAML)


def _is_deep(value: object) -> bool:
    """Return whether *value* is nested more deeply than a document may be."""
    level = [value]
    for _ in range(MAX_DOCUMENT_DEPTH + 1):
        containers = [each for each in level if isinstance(each, (dict, list))]
        if not containers:
            return False
        level = [item for each in containers for item in (each.values() if isinstance(each, dict) else each)]
    return True


def _read_common(data: bytes) -> tuple[bool, object]:
    """Return True and the value of a JSON object that YAML reads in the same way; False for any other text.

    The text is printable ASCII without escapes. Each key occurs once, and is on the same line as its colon.
    """
    if data.lstrip(b" \n")[:1] != b"{" or data.translate(None, _COMMON):
        return False, None
    if data.count(b"{") + data.count(b"[") > _MAX_BRACKETS:
        return False, None
    # Without escapes, every second piece is a string.
    pieces = data.split(b'"')
    for string, after in zip(pieces[1::2], pieces[2::2]):  # noqa: B905 - the last string may be unterminated
        gap, colon, _ = after.partition(b":")
        if colon and (gap.strip(b" ") or len(string) + len(gap) > _MAX_KEY):
            return False, None
    try:
        return True, _COMMON_DECODER.decode(data.decode("ascii"))
    except (ValueError, RecursionError, RepeatedNameError):
        return False, None


def _refuse(_text: str) -> object:
    raise ValueError


def _read_small(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError
    return int(digits)


_COMMON_DECODER = JSONDecoder(
    parse_float=_refuse, parse_constant=_refuse, parse_int=_read_small, object_pairs_hook=refuse_repeats
)


class _Level:
    """An object or array whose end the scanner has not reached yet."""

    __slots__ = ("children", "firsts", "is_object", "step", "wants_key")

    def __init__(self, children: dict[str | int, PositionNode], *, is_object: bool) -> None:
        self.children = children
        self.firsts: dict[str | int, Position] = {}
        self.is_object = self.wants_key = is_object
        self.step: str | int = 0


class _Scanner:
    """Finds positions and repeated keys in text that is known to be valid JSON."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line_ends: list[int] = []
        self.open: list[_Level] = []
        self.root = PositionNode(position=Position(line=1, column=1), children={})
        self.duplicates: list[DuplicateKey] = []

    def place_all(self) -> PositionNode:
        """Scan the text, and return the position tree."""
        self.run()
        return self.root

    def run(self) -> None:
        self.line_ends = [match.start() for match in re.finditer("\n", self.text)]
        for match in re.finditer(_PIECE, self.text):
            piece = match[0]
            if piece in "]}":
                self.open.pop()
            elif piece == ",":
                self.pass_comma(self.open[-1])
            elif self.open and self.open[-1].wants_key:
                self.take_key(self.open[-1], piece, self.locate(match.start()))
            else:
                self.take_value(piece, self.locate(match.start()))

    def locate(self, offset: int) -> Position:
        line = bisect_left(self.line_ends, offset)
        start = self.line_ends[line - 1] + 1 if line else 0
        return Position(line=line + 1, column=offset - start + 1)

    def pass_comma(self, level: _Level) -> None:
        level.wants_key = level.is_object
        if isinstance(level.step, int):
            level.step += 1

    def take_key(self, level: _Level, piece: str, position: Position) -> None:
        level.wants_key = False
        level.step = str(_json.loads(piece)) if "\\" in piece else piece[1:-1]
        level.children[level.step] = PositionNode(position=position, children={})
        first = level.firsts.setdefault(level.step, position)
        if first is not position and len(self.duplicates) < _json.MAX_DUPLICATES:
            path = tuple(each.step for each in self.open)
            self.duplicates.append(DuplicateKey(path=path, position=position, first=first))

    def take_value(self, piece: str, position: Position) -> None:
        place = self.place_value(position)
        if piece not in "[{":
            return
        if len(self.open) == MAX_DOCUMENT_DEPTH:
            message, text = "not readable as JSON: nested too deeply", "exceeded max depth"
            raise DocumentError(message, position.line, position.column, text, Kind.JSON_SYNTAX)
        self.open.append(_Level(place.children, is_object=piece == "{"))

    def place_value(self, position: Position) -> PositionNode:
        if not self.open:
            self.root = PositionNode(position=position, children={})
            return self.root
        level = self.open[-1]
        if not level.is_object:
            level.children[level.step] = PositionNode(position=position, children={})
        return level.children[level.step]
