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

from keyferry._core.paths import Path
from keyferry.errors import DocumentError

# The limit of Go's decoder.
MAX_JSON_DEPTH = 10_000
# The number of strict decoding errors that Kubernetes keeps; it also bounds the memory for hostile input.
MAX_DUPLICATES = 100
_HANDLER = "keyferry.each-byte"
# All escapes are matched, so that the second backslash of an escaped backslash does not start one.
_ESCAPE = r"(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
# The characters that Go does not write as they are; a surrogate stands for no character.
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_ESCAPED |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


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
    except RepeatedNameError:
        pass
    return _decode(text, _PLAIN, quoted), tuple(islice(_find_duplicates(text), MAX_DUPLICATES))


def dumps(value: object) -> str:
    """Write compact JSON with Go's escapes; keys are not sorted, and floats have Python's format."""
    return _ENCODER.encode(value).translate(_ESCAPED)


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
    """Return the text of a document, with U+FFFD for unpaired surrogates; raise DocumentError if it is too deep."""
    text = data if isinstance(data, str) else decode_utf8(data)
    if "\\" in text:
        text = re.sub(_ESCAPE, lambda match: "\\ufffd" if match[1] else match[0], text)
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH:
        from keyferry._core.json_errors import check_depth

        check_depth(text, MAX_JSON_DEPTH)
    return text


def _decode(text: str, decoder: json.JSONDecoder, quoted: bytes | str | None = None) -> object:
    try:
        return decoder.decode(text)
    except (json.JSONDecodeError, ConstantError, RecursionError) as error:
        from keyferry._core.json_errors import describe_failure

        failure: DocumentError | None = describe_failure(error, text, quoted)
    except ValueError:
        # The interpreter does not convert integers of thousands of digits.
        failure = None
    if failure is not None:
        raise failure
    hook = decoder.object_pairs_hook
    patient = json.JSONDecoder(
        parse_constant=_refuse_constant, parse_int=_read_integer, object_pairs_hook=hook
    )
    return _decode(text, patient, quoted)


def _read_integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


class ConstantError(Exception):
    """NaN or Infinity, which JSON does not have; its name is the argument."""


def _refuse_constant(name: str) -> object:
    raise ConstantError(name)


class RepeatedNameError(Exception):
    """An object has two members of the same name."""


def refuse_repeats(members: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of a decoder; raise RepeatedNameError if a name occurs twice."""
    built = dict(members)
    if len(built) != len(members):
        raise RepeatedNameError
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
_UNREPEATED = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=refuse_repeats)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
