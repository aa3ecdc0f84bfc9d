"""The values that go-yaml v2 gives to scalars, and their conversion to JSON."""

from __future__ import annotations

import math
import re
import struct
from base64 import b64decode

from keyferry._core.gotext import quote
from keyferry._core.json import decode_utf8
from keyferry._core.positions import Position
from keyferry.errors import DocumentError, Kind

Scalar = str | int | float | None

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_KINDS = {bool: "bool", int: "int", float: "float", type(None): "null", str: "str"}
# Sign, prefix, digits. 64 digits suffice for every number that fits, and int() accepts them.
_INTEGER = r"([-+]?)(0[xX]|0[bB]|0[oO]|0(?=.)|)([0-9a-fA-F]{1,64})"
_BASES = {"0x": 16, "0b": 2, "0o": 8, "0": 8, "": 10}
_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"


def refuse(problem: str, at: Position, text: str = "") -> DocumentError:
    """Return the error for a document that go-yaml rejects with *problem*, or with *text* if that differs."""
    return DocumentError(problem, at.line, at.column, f"yaml: {text or problem}")


def is_merge_key(tag: str | None, text: str, *, is_plain: bool) -> bool:
    """Return whether a key merges the entries of its value and is not itself an entry."""
    return text == "<<" and (is_plain or tag == f"{_TAG}merge")


def resolve(tag: str | None, text: str, at: Position, *, is_plain: bool, quoting: bool = False) -> Scalar:
    """Return the value of a scalar; one with a tag that is not YAML's own is a string."""
    if tag is None or tag == "!":
        return _resolve_plain(text) if is_plain else text
    kind = tag.removeprefix(_TAG)
    if kind == "binary":
        return _decode_binary(text, at)
    if kind not in ("bool", "int", "float", "null"):
        return text
    value = _resolve_plain(text)
    if kind == "float" and type(value) is int:
        return float(value)
    if kind != (found := _KINDS[type(value)]):
        quoted = f"cannot decode !!{found} `{text}` as a !!{kind}" if quoting else ""
        raise refuse(f"cannot decode !!{found} as a !!{kind}", at, quoted)
    return value


def to_json(value: object, at: Position) -> object:
    """Return *value* as it is after being written as JSON and read again."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else f"{value:+}".title()
        message = "infinity and NaN cannot be written as JSON"
        raise DocumentError(message, at.line, at.column, f"json: unsupported value: {name}", Kind.OTHER)
    # Go writes 1e3 as 1000, which then fits an integer field; from 1e21 on it keeps the exponent.
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def to_key(value: object) -> str | None:
    """Return the JSON name of a mapping key; None for null and numbers over 63 bits, which have none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value < 2**63:
        return str(value)
    if isinstance(value, float):
        return _format_float(value)
    return None


def go_scalar(value: object) -> str:
    """Write a scalar as Go's ``%#v`` does."""
    if value is None:
        return "<nil>"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if value < 2**63 else hex(value)
    if isinstance(value, float) and math.isfinite(value):
        return _write_float(value, next(n for n in range(18) if float(f"{value:.{n}e}") == value))
    return f"{value:+}".title().replace("+Nan", "NaN")


def _resolve_plain(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-0123456789":
        return _read_number(text.replace("_", ""), text)
    return _read_float(text, text) if text[0] == "." else text


def _read_number(digits: str, text: str) -> Scalar:
    match = re.fullmatch(_INTEGER, digits)
    try:
        value = int(match[1] + match[3], _BASES[match[2].lower()]) if match else None
    except ValueError:
        value = None
    if value is not None and -(2**63) <= value < 2**64:
        return value
    return _read_float(digits, text)


def _read_float(digits: str, text: str) -> Scalar:
    value = float(digits) if re.fullmatch(_FLOAT, digits) else math.inf
    return text if math.isinf(value) else value


def _decode_binary(text: str, at: Position) -> str:
    try:
        return decode_utf8(b64decode(re.sub("[\r\n]", "", text), validate=True))
    except ValueError:
        pass
    raise refuse("!!binary value contains invalid base64 data", at)


def _format_float(value: float) -> str:
    """Write a float key as Go does: the shortest text that reads back as the same 32 bit number."""
    narrow = _narrow(value)
    if not math.isfinite(narrow):
        return ".nan" if math.isnan(narrow) else f"{narrow}".replace("inf", ".inf")
    digits = next(n for n in range(9) if _narrow(float(f"{narrow:.{n}e}")) == narrow)
    return _write_float(narrow, digits)


def _narrow(value: float) -> float:
    """Return the 32 bit number next to *value*, as C does: infinity for one that does not fit."""
    try:
        narrow: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:  # of Python 3.14; earlier ones return infinity
        return math.copysign(math.inf, value)
    return narrow


def _write_float(value: float, digits: int) -> str:
    """Write a float with *digits* digits after the first one, as Go's format 'g' does."""
    text = f"{value:.{digits}e}"
    exponent = int(text.partition("e")[2])
    if -4 <= exponent < 6:  # the bounds of Go's 'g' format
        return f"{value:.{max(digits - exponent, 0)}f}"
    return text
