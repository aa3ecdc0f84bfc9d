"""Read and write JSON as Go's encoding/json does.

Errors contain no part of the document unless the caller allows the character at fault. They are raised outside
``except`` blocks, because Python's decoding errors keep the whole text.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from itertools import islice
from math import inf

from keyferry._core.json_wording import ENDS_EARLY, brackets, constant_text, go_syntax_text
from keyferry._core.paths import Path
from keyferry.errors import DocumentError, Kind

MAX_DEPTH = 10_000
# The number of strict decoding errors that Kubernetes keeps; it also bounds the memory for hostile input.
MAX_DUPLICATES = 100
_HANDLER = "keyferry.each-byte"
# All escapes are matched, so that the second backslash of an escaped backslash does not start one.
_ESCAPE = r"(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
_NOT_WRITTEN_RAW = "[<>&\u2028\u2029\ud800-\udfff]"


def loads(data: bytes | str, *, quoting: bool = False) -> object:
    """Parse exactly one JSON value; of members with the same name the last one wins.

    With *quoting*, the ``kubernetes_text`` of an error contains the character at fault, as in Go. Use it for files that
    people write, never for the output of a plugin.
    """
    return _decode(_prepare(data), _PLAIN, data if quoting else None)


def loads_with_duplicates(data: bytes | str, *, quoting: bool = False) -> tuple[object, tuple[Path, ...]]:
    """Parse as ``loads`` does; also return the paths of repeated members, in document order."""
    text, quoted = _prepare(data), data if quoting else None
    try:
        return _decode(text, _UNREPEATED, quoted), ()
    except _RepeatedNameError:
        pass
    return _decode(text, _PLAIN, quoted), tuple(islice(_find_duplicates(text), MAX_DUPLICATES))


def dumps(value: object) -> str:
    """Write compact JSON with Go's escapes; keys are not sorted, and floats have Python's format."""
    return re.sub(_NOT_WRITTEN_RAW, _escape, _ENCODER.encode(value))


def decode_utf8(data: bytes) -> str:
    """Decode *data* with one U+FFFD for each invalid byte, where Python has one for several."""
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
    """Return the text of a document, with U+FFFD for unpaired surrogates; raise DocumentError if it is too deep."""
    text = data if isinstance(data, str) else decode_utf8(data)
    text = re.sub(_ESCAPE, lambda match: "\\ufffd" if match[1] else match[0], text)
    if text.count("[") + text.count("{") > MAX_DEPTH and _measure_depth(text, MAX_DEPTH)[0] > MAX_DEPTH:
        raise _too_deep()
    return text


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return "\ufffd" if "\ud800" <= character <= "\udfff" else f"\\u{ord(character):04x}"


def _measure_depth(text: str, enough: float = inf) -> tuple[int, int]:
    """Return the deepest nesting, counted up to just above *enough*, and the number of brackets left open."""
    depth = deepest = 0
    for bracket in brackets(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
        if deepest > enough:
            break
    return deepest, depth


def _decode(text: str, decoder: json.JSONDecoder, quoted: bytes | str | None = None) -> object:
    failure = None
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        go_text = go_syntax_text(error.msg, text, error.pos, _shown(quoted))
        failure = _refusal(error.msg, go_text, error.lineno, error.colno)
    except _ConstantError as error:
        go_text = constant_text(error.name, quoting=quoted is not None)
        failure = _refusal("the constants NaN and Infinity are not JSON values", go_text)
    except RecursionError:
        failure = _refusal("", ENDS_EARLY) if _measure_depth(text)[1] > 0 else _too_deep()
    except ValueError:
        # The interpreter does not convert integers of thousands of digits.
        decoder = json.JSONDecoder(
            parse_constant=_refuse_constant,
            parse_int=_read_integer,
            object_pairs_hook=decoder.object_pairs_hook,
        )
    if failure is not None:
        raise failure
    return _decode(text, decoder, quoted)


def _shown(quoted: bytes | str | None) -> str | None:
    """Return the text to quote, of the same length as the parsed text; bytes that are not UTF-8 are surrogates."""
    if isinstance(quoted, bytes):
        return quoted.decode("utf-8", "surrogateescape")
    return None if quoted is None else re.sub("[\ud800-\udfff]", "\ufffd", quoted)


def _read_integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


class _ConstantError(Exception):
    """NaN or Infinity, which JSON does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _refuse_constant(name: str) -> object:
    raise _ConstantError(name)


def _refusal(problem: str, go_text: str, line: int | None = None, column: int | None = None) -> DocumentError:
    reason = problem[:1].lower() + problem[1:].removesuffix(" at")
    if go_text == ENDS_EARLY:
        reason = "the text ends too early"
    return DocumentError(f"not valid JSON: {reason}", line, column, go_text, Kind.JSON_SYNTAX)


def _too_deep() -> DocumentError:
    message = "not readable as JSON: nested too deeply"
    return DocumentError(message, kubernetes_text="exceeded max depth", kind=Kind.JSON_SYNTAX)


class _RepeatedNameError(Exception):
    """An object has two members of the same name."""


def _refuse_repeats(members: list[tuple[str, object]]) -> dict[str, object]:
    built = dict(members)
    if len(built) != len(members):
        raise _RepeatedNameError
    return built


class _Members(list[tuple[str, object]]):
    """The members of an object as a list, which keeps repeated names."""


def _find_duplicates(text: str) -> Iterator[Path]:
    hook = json.JSONDecoder(parse_int=str, object_pairs_hook=_Members)
    stack: list[tuple[Path, Iterator[tuple[str | int, object, bool]]]] = [((), _steps(_decode(text, hook)))]
    while stack:
        path, steps = stack[-1]
        name, child, repeated = next(steps, (None, None, False))
        if name is None:
            stack.pop()
            continue
        if repeated:
            yield (*path, name)
        if isinstance(child, list) and child:
            stack.append(((*path, name), _steps(child)))


def _steps(node: object) -> Iterator[tuple[str | int, object, bool]]:
    if isinstance(node, _Members):
        seen: set[str] = set()
        for name, child in node:
            yield name, child, name in seen
            seen.add(name)
    elif isinstance(node, list):
        yield from ((index, child, False) for index, child in enumerate(node))


_PLAIN = json.JSONDecoder(parse_constant=_refuse_constant)
_UNREPEATED = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
