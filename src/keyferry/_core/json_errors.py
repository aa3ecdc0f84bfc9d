"""The errors of JSON that cannot be read, with Go's texts, derived from the position where Python's decoder stopped.

The texts are those of ``encoding/json`` since Go 1.27, as in the recorded answers. Its scanner is that of
``encoding/json/v2``, which names the whole character, not its first byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from json import JSONDecodeError
from math import inf

from keyferry._core.gotext import quote, quote_rune
from keyferry._core.values import Value
from keyferry.errors import DocumentError, Kind

ENDS_EARLY = "unexpected end of JSON input"
_BLANK = " \t\r\n"
_VALUE, _KEY = "looking for beginning of value", "looking for beginning of object key string"
_NUMBER = "in numeric literal"


class Stop(StrEnum):
    """The reason why Python's decoder stopped."""

    UNTERMINATED = "unterminated"
    ESCAPE = "escape"
    CONTROL = "control"
    VALUE = "value"
    MEMBER_COMMA = "member-comma"
    ELEMENT_COMMA = "element-comma"
    COLON = "colon"
    KEY = "key"
    AFTER_VALUE = "after-value"
    BETWEEN = "between"


# Python's decoder has messages but no error codes. These are the beginnings of its messages in all versions from 3.11
# on. The tests compare them with the decoder of the running version.
_STOPS = (
    ("Unterminated string starting at", Stop.UNTERMINATED),
    ("Invalid \\", Stop.ESCAPE),
    ("Invalid control character", Stop.CONTROL),
    ("Expecting value", Stop.VALUE),
    ("Illegal trailing comma before end of object", Stop.MEMBER_COMMA),
    ("Illegal trailing comma before end of array", Stop.ELEMENT_COMMA),
    ("Expecting ':' delimiter", Stop.COLON),
    ("Expecting property name enclosed in double quotes", Stop.KEY),
    ("Extra data", Stop.AFTER_VALUE),
    ("Expecting ',' delimiter", Stop.BETWEEN),
)
_AFTER = {Stop.COLON: "after object key", Stop.AFTER_VALUE: "after top-level value", Stop.KEY: _KEY}
_AFTER_MEMBER = {"{": "after object key:value pair", "[": "after array element"}
_BRACKET = r'(?s)"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{\]}]'
_NO_BRACKET = r'(?s)"[^"\\]*(?:\\.[^"\\]*)*"?|[^"\[\]{}]+'
# So many times the innermost pairs of brackets are taken away: few documents are nested more deeply.
_PASSES = 32
_NUMBER_END = r"-?[0-9]+(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][-+]?[0-9]+)?\Z"
_MAX_NUMBER = 400  # characters of a number that are searched


def describe_failure(error: Exception, text: str, quoted: bytes | str | None) -> DocumentError:
    """Return the error for *text*, which Python's decoder refused with *error*.

    *quoted* is the original text if the error may quote it.
    """
    if isinstance(error, JSONDecodeError):
        go_text = go_syntax_text(error.msg, text, error.pos, _shown(quoted))
        return _refusal(error.msg, go_text, error.lineno, error.colno)
    if isinstance(error, RecursionError):
        return _refusal("", ENDS_EARLY) if _measure_depth(text)[1] > 0 else _too_deep()
    go_text = constant_text(str(error), quoting=quoted is not None)
    return _refusal("the constants NaN and Infinity are not JSON values", go_text)


def check_depth(text: str, deepest: int) -> None:
    """Raise DocumentError if *text* is nested more deeply than *deepest*, as Go does."""
    left = re.sub(_NO_BRACKET, "", text)
    for _ in range(_PASSES):
        left = left.replace("[]", "").replace("{}", "")
    # Each pass took away two levels at most, and what is left has as many levels as brackets at most.
    if len(left) + 2 * _PASSES > deepest and _measure_depth(text, deepest)[0] > deepest:
        raise _too_deep()


def _measure_depth(text: str, enough: float = inf) -> tuple[int, int]:
    """Return the deepest nesting, counted up to just above *enough*, and the number of brackets left open."""
    depth = deepest = 0
    for bracket in brackets(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
        if deepest > enough:
            break
    return deepest, depth


def _shown(quoted: bytes | str | None) -> str | None:
    """Return the text to quote, of the same length as the parsed text; bytes that are not UTF-8 are surrogates."""
    if isinstance(quoted, bytes):
        return quoted.decode("utf-8", "surrogateescape")
    return None if quoted is None else re.sub("[\ud800-\udfff]", "\ufffd", quoted)


def _refusal(problem: str, go_text: str, line: int | None = None, column: int | None = None) -> DocumentError:
    reason = problem[:1].lower() + problem[1:].removesuffix(" at")
    if go_text == ENDS_EARLY:
        reason = "the text ends too early"
    return DocumentError(f"not valid JSON: {reason}", line, column, go_text, Kind.JSON_SYNTAX)


def _too_deep() -> DocumentError:
    message = "not readable as JSON: nested too deeply"
    return DocumentError(message, kubernetes_text="exceeded max depth", kind=Kind.JSON_SYNTAX)


def go_syntax_text(problem: str, text: str, offset: int, shown: str | None) -> str:
    """Return Go's error text for Python's *problem* at *offset*.

    *shown* is the text to quote, with bytes that are not UTF-8 as surrogates; None if the text must not be quoted.
    """
    stop = stop_of(problem)
    if stop is Stop.UNTERMINATED:
        return ENDS_EARLY
    if stop is Stop.ESCAPE:
        return _escape_text(text, offset, shown)
    place = _locate(stop, text, offset)
    if place.offset >= len(text):
        return ENDS_EARLY
    if shown is not None:
        return f"invalid character {quote_rune(shown[place.offset])} {place.where}"
    # The name of the literal would reveal a character of the text.
    return f"invalid character {_VALUE if place.is_in_literal else place.where}"


def stop_of(problem: str) -> Stop:
    """Return the reason why Python's decoder stopped, from its message."""
    return next((stop for words, stop in _STOPS if problem.startswith(words)), Stop.BETWEEN)


def constant_text(name: str, *, quoting: bool) -> str:
    """Return Go's error text for a constant that Python reads as a number."""
    character, where = ("I", _NUMBER) if name.startswith("-") else (name[0], _VALUE)
    return f"invalid character '{character}' {where}" if quoting else f"invalid character {where}"


def brackets(text: str) -> Iterator[str]:
    """Yield the brackets of *text* outside strings, in order."""
    return (match[0] for match in re.finditer(_BRACKET, text) if match[0] in "[]{}")


# The offset where Go stops, and Go's description of the context.
class _Place(Value):
    offset: int
    where: str
    is_in_literal: bool = False


def _locate(stop: Stop, text: str, offset: int) -> _Place:
    if stop in (Stop.MEMBER_COMMA, Stop.ELEMENT_COMMA):
        # Python 3.13 points at the comma, Go at the character after it.
        return _Place(
            offset=_skip_blanks(text, offset + 1), where=_KEY if stop is Stop.MEMBER_COMMA else _VALUE
        )
    if stop is Stop.CONTROL:
        return _Place(offset=offset, where="in string")
    offset = _skip_blanks(text, offset)
    if stop is Stop.VALUE:
        return _locate_in_value(text, offset)
    at = _locate_in_number(text, offset)
    if at is not None:
        return _Place(offset=at, where=_NUMBER)
    after = _AFTER.get(stop) or _AFTER_MEMBER.get(_innermost(text[:offset]), _AFTER[Stop.AFTER_VALUE])
    return _Place(offset=offset, where=after)


def _innermost(text: str) -> str:
    """Return the last bracket that *text* opens and does not close, or an empty string."""
    found: list[str] = []
    for bracket in brackets(text):
        if bracket in "[{":
            found.append(bracket)
        elif found:
            found.pop()
    return found[-1] if found else ""


def _skip_blanks(text: str, offset: int) -> int:
    while text[offset : offset + 1] and text[offset] in _BLANK:
        offset += 1
    return offset


def _locate_in_value(text: str, offset: int) -> _Place:
    if text[offset : offset + 1] == "-":
        return _Place(offset=offset + 1, where=_NUMBER)
    for literal in ("true", "false", "null"):
        if text[offset : offset + 1] == literal[0]:
            same = next(n for n in range(len(literal)) if text[offset + n : offset + n + 1] != literal[n])
            return _Place(
                offset=offset + same,
                where=f"in literal {literal} (expecting '{literal[same]}')",
                is_in_literal=True,
            )
    return _Place(offset=offset, where=_VALUE)


def _locate_in_number(text: str, offset: int) -> int | None:
    """Return the offset where Go rejects a number that Python ended at *offset*: Go reads past '.' and 'e'."""
    number = re.search(_NUMBER_END, text[max(offset - _MAX_NUMBER, 0) : offset])
    mark = text[offset : offset + 1]
    if number is None or number["exponent"]:
        return None
    if mark == "." and not number["fraction"]:
        return offset + 1
    if mark in ("e", "E"):
        return offset + 1 + (text[offset + 1 : offset + 2] in ("+", "-"))
    return None


def _escape_text(text: str, offset: int, shown: str | None) -> str:
    # CPython's decoder points at the backslash or at the character after it.
    start = offset if text[offset : offset + 1] == "\\" else text.rindex("\\", 0, offset)
    is_unicode = text[start + 1] == "u"
    if is_unicode and re.fullmatch(r"\\u[0-9a-fA-F]{0,4}", text[start:]):
        return ENDS_EARLY
    if shown is None:
        return "invalid escape sequence in string"
    return (
        f"invalid escape sequence {_quote_bytes(shown[start : start + 6], 6 if is_unicode else 2)} in string"
    )


def _quote_bytes(text: str, most: int) -> str:
    """Return the first bytes of *text*, in back quotes unless a character needs an escape."""
    cut = text.encode("utf-8", "surrogateescape")[:most].decode("utf-8", "surrogateescape")
    plain = cut.isprintable() and not any(character.isspace() or character in "`\ufffd" for character in cut)
    return f"`{cut}`" if plain else quote(cut)
