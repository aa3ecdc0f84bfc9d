"""Read and write JSON as Go's encoding/json does, never quoting what was read.

A plugin is a fresh interpreter for every call, and the ``json`` package, with the regular expressions it is
built on, is half of its start. So the everyday document goes through that package's compiled core
alone, and everything else (what is malformed, repeats a name, needs an escape) to ``json_errors``.
"""

import codecs

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable

    from keyferry._core.paths import Path

MAX_DEPTH = 10_000
# As many strict decoding errors as Kubernetes keeps; also bounds the memory hostile input can claim.
MAX_DUPLICATES = 100
_HANDLER = "keyferry.each-byte"
_BLANK = " \t\r\n"
_MOST_DIGITS = 18  # far from where a number would not fit in 64 bits


class _UnusualError(ValueError):
    """The text is not for the quick reader."""


def _refuse_constant(_name: str) -> object:
    raise _UnusualError


def _refuse_repeats(members: list[tuple[str, object]]) -> dict[str, object]:
    built = dict(members)
    if len(built) != len(members):
        raise _UnusualError
    return built


class _Settings:
    """What the compiled reader wants to know."""

    strict = True
    object_hook = None
    object_pairs_hook: "Callable[[list[tuple[str, object]]], object] | None" = None
    parse_float: "Callable[[str], object]" = float
    parse_int: "Callable[[str], object]" = int
    parse_constant = staticmethod(_refuse_constant)
    memo: dict[str, str] = {}  # noqa: RUF012 - the reader's own


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
    # Another implementation of Python: its json package does it all.
    _QUICK = None
else:
    # The stubs have the reader take itself for its settings.
    _make: "Callable[[_Settings], Callable[[str, int], tuple[object, int]]]" = make_scanner  # type: ignore[assignment]
    _QUICK = (_make(_Settings()), _make(_UnrepeatedSettings()), _make(_PlainSettings()))


def loads(data: bytes | str, *, quoting: bool = False) -> object:
    """Parse exactly one JSON value; of members with the same name the last one wins.

    With *quoting* the ``kubernetes_text`` of an error names the character at fault, as Go does. It is for files
    that people write, never for what a plugin printed.
    """
    text = _prepare(data)
    is_read, value = _read_quickly(text, 0)
    if is_read:
        return value
    from keyferry._core.json_errors import decode_plain

    return decode_plain(text, data if quoting else None)


def loads_with_duplicates(data: bytes | str, *, quoting: bool = False) -> "tuple[object, tuple[Path, ...]]":
    """As ``loads``, with the paths of repeated members, in document order."""
    text = _prepare(data)
    is_read, value = _read_quickly(text, 1)
    if is_read:
        return value, ()
    from keyferry._core.json_errors import decode_noting_duplicates

    return decode_noting_duplicates(text, data if quoting else None, at_most=MAX_DUPLICATES)


def read_plain(text: str) -> tuple[bool, object]:
    """Parse one JSON value without repeated members, fractions and huge numbers; False if it is another."""
    return _read_quickly(text, 2)


def dumps(value: object) -> str:
    """Write compact JSON with Go's escapes; the caller sorts keys, and floats are written Python's way."""
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
    """Decode *data*, with U+FFFD for each invalid byte, where Python would put one for a run of them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        codecs.register_error(_HANDLER, _replace_byte)
    return data.decode(errors=_HANDLER)


def _replace_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd", error.start + 1


def _prepare(data: bytes | str) -> str:
    text = data if isinstance(data, str) else decode_utf8(data)
    if "\\ud" in text or "\\uD" in text:
        from keyferry._core.json_errors import repair_surrogates

        text = repair_surrogates(text)
    if text.count("[") + text.count("{") > MAX_DEPTH:
        from keyferry._core.json_errors import check_depth

        check_depth(text, MAX_DEPTH)
    return text


def _read_quickly(text: str, which: int) -> tuple[bool, object]:
    """The one value in *text*, if it is as usual; whatever it is not is for the other reader to say."""
    if _QUICK is None:
        return False, None
    try:
        value, end = _QUICK[which](text, len(text) - len(text.lstrip(_BLANK)))
    except (StopIteration, ValueError, RecursionError, SystemError):
        # A SystemError where the json package is not loaded: up to 3.11 the core takes its exception from there.
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
