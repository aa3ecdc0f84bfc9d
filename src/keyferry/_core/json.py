"""Read and write JSON as Go's encoding/json does; errors do not quote the document.

Each plugin call starts a new interpreter, and importing the ``json`` package, with ``re``, takes half of that time. So
usual documents are read with that package's compiled core alone. Documents that are malformed, repeat a name or need an
escape go to ``json_errors``.
"""

from __future__ import annotations

import codecs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from keyferry._core.paths import Path

MAX_DEPTH = 10_000
# The number of strict decoding errors that Kubernetes keeps; it also bounds the memory for hostile input.
MAX_DUPLICATES = 100
_HANDLER = "keyferry.each-byte"
_BLANK = " \t\r\n"
_MOST_DIGITS = 18  # any number of so many digits fits in 64 bits


class _UnusualError(ValueError):
    """The compiled core cannot read or write this document."""


def _refuse_constant(_name: str) -> object:
    raise _UnusualError


def _refuse_repeats(members: list[tuple[str, object]]) -> dict[str, object]:
    built = dict(members)
    if len(built) != len(members):
        raise _UnusualError
    return built


class _Settings:
    """The settings that the compiled reader takes."""

    strict = True
    object_hook = None
    object_pairs_hook: Callable[[list[tuple[str, object]]], object] | None = None
    parse_float: Callable[[str], object] = float
    parse_int: Callable[[str], object] = int
    parse_constant = staticmethod(_refuse_constant)
    memo: dict[str, str] = {}  # noqa: RUF012 - the reader writes to it


class _UnrepeatedSettings(_Settings):
    object_pairs_hook = staticmethod(_refuse_repeats)


def _read_small(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise _UnusualError
    return int(digits)


class _PlainSettings(_UnrepeatedSettings):
    parse_float = staticmethod(_refuse_constant)
    parse_int = staticmethod(_read_small)


try:
    from _json import encode_basestring, make_scanner
except ImportError:
    # Not CPython: the json package does all of the work.
    _QUICK = None
else:
    # The stubs declare that the reader takes itself as its settings.
    _make: Callable[[_Settings], Callable[[str, int], tuple[object, int]]] = make_scanner  # type: ignore[assignment]
    _QUICK = (_make(_Settings()), _make(_UnrepeatedSettings()), _make(_PlainSettings()))


def loads(data: bytes | str, *, quoting: bool = False) -> object:
    """Parse exactly one JSON value; of members with the same name the last one wins.

    With *quoting*, the ``kubernetes_text`` of an error contains the character at fault, as in Go. Use it for files that
    people write, never for the output of a plugin.
    """
    text = _prepare(data)
    is_read, value = _read_quickly(text, 0)
    if is_read:
        return value
    from keyferry._core.json_errors import decode_plain

    return decode_plain(text, data if quoting else None)


def loads_with_duplicates(data: bytes | str, *, quoting: bool = False) -> tuple[object, tuple[Path, ...]]:
    """Parse as ``loads`` does; also return the paths of repeated members, in document order."""
    text = _prepare(data)
    is_read, value = _read_quickly(text, 1)
    if is_read:
        return value, ()
    from keyferry._core.json_errors import decode_noting_duplicates

    return decode_noting_duplicates(text, data if quoting else None, at_most=MAX_DUPLICATES)


def read_plain(text: str) -> tuple[bool, object]:
    """Return True and the value of *text*; False if it has repeated members, fractions or huge numbers."""
    return _read_quickly(text, 2)


def read_counting_strings(data: bytes) -> tuple[object, int]:
    """Return the value of a short document without escapes, and the number of strings in its text, names included.

    A value with fewer strings than its text has repeated members. None and 0 are returned for any other document.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None, 0
    if "\\" in text or len(text) > MAX_DEPTH:
        return None, 0
    is_read, value = _read_quickly(text, 0)
    return (value, text.count('"') // 2) if is_read else (None, 0)


def dumps(value: object) -> str:
    """Write compact JSON with Go's escapes; keys are not sorted, and floats have Python's format."""
    try:
        text = _write(value)
    except _UnusualError:
        from keyferry._core.json_errors import encode

        return encode(value)
    if text.isascii() and "<" not in text and ">" not in text and "&" not in text:
        return text
    from keyferry._core.json_errors import escape

    return escape(text)


def decode_utf8(data: bytes) -> str:
    """Decode *data* with one U+FFFD for each invalid byte, where Python has one for several."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        codecs.register_error(_HANDLER, _replace_byte)
    return data.decode(errors=_HANDLER)


def read_object(data: bytes | str) -> dict[str, object] | None:
    """Return the JSON object in *data*; None if it is anything else.

    Use it for data that may contain a secret: no exception keeps the data in its frames.
    """
    from keyferry.errors import DocumentError

    try:
        document = loads(data)
    except DocumentError:
        return None
    return document if isinstance(document, dict) else None


def _replace_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd", error.start + 1


def _prepare(data: bytes | str) -> str:
    text = data if isinstance(data, str) else decode_utf8(data)
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        from keyferry._core.json_errors import repair_surrogates

        text = repair_surrogates(text)
    if len(text) > MAX_DEPTH and text.count("[") + text.count("{") > MAX_DEPTH:
        from keyferry._core.json_errors import check_depth

        check_depth(text, MAX_DEPTH)
    return text


def _read_quickly(text: str, which: int) -> tuple[bool, object]:
    """Return True and the value of *text* if the compiled reader can read it, else False."""
    if _QUICK is None:
        return False, None
    try:
        value, end = _QUICK[which](text, len(text) - len(text.lstrip(_BLANK)))
    except (StopIteration, ValueError, RecursionError, SystemError):
        # SystemError: without the json package, up to Python 3.11, the core does not find its exception class.
        return False, None
    return not text[end:].strip(_BLANK), value


def _write(value: object) -> str:
    if type(value) is str and _QUICK is not None:
        return str(encode_basestring(value))
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if type(value) is int:
        return str(value)
    if type(value) is dict and all(type(name) is str for name in value):
        return "{" + ",".join([f"{_write(name)}:{_write(member)}" for name, member in value.items()]) + "}"
    if type(value) is list or type(value) is tuple:
        return "[" + ",".join([_write(member) for member in value]) + "]"
    raise _UnusualError
