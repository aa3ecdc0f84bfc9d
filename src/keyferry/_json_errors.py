"""JSON out of the ordinary: what is wrong with a text, which members repeat, what needs escapes.

Loaded only when there is such a text; see ``_json``. Errors carry no part of the document, and they are
raised outside ``except`` blocks: Python's own decoding errors keep the whole text.
"""

import json
import re

from ._json import MAX_DEPTH, MAX_DUPLICATES
from ._paths import Path
from .errors import DocumentError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterator

# Compiled when first used: most runs need none of them, and compiling takes milliseconds.
_UNFINISHED_VALUE = r"(?:(?<=[0-9])(?:\.|[eE][-+]?)|-|t|tr|tru|f|fa|fal|fals|n|nu|nul|[ \t\r\n]*)\Z"
_UNFINISHED_ESCAPE = r"\\u[0-9a-fA-F]{0,3}\Z"
_BRACKET = r'(?s)"[^"\\]*(?:\\.[^"\\]*)*"?|([\[{])|([\]}])'
# Every escape is matched, so that the second half of an escaped backslash starts none.
_ESCAPE = r"(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
_NOT_WRITTEN_RAW = "[<>&\u2028\u2029\ud800-\udfff]"


def decode_plain(text: str) -> object:
    """Parse exactly one JSON value; of members with the same name the last one wins."""
    return _decode(text, _PLAIN)


def decode_noting_duplicates(text: str) -> tuple[object, tuple[Path, ...]]:
    """Parse exactly one JSON value and list the paths of repeated members, in document order."""
    try:
        return _decode(text, _UNREPEATED), ()
    except _RepeatedNameError:
        pass
    return _decode(text, _PLAIN), tuple(_find_duplicates(text))


def encode(value: object) -> str:
    """Write compact JSON with Go's escapes."""
    return escape(_ENCODER.encode(value))


def escape(text: str) -> str:
    """Escape in JSON *text* what Go does not write as it is."""
    return re.sub(_NOT_WRITTEN_RAW, _escape, text)


def repair_surrogates(text: str) -> str:
    """Put U+FFFD for escapes that are half of a pair."""
    return re.sub(_ESCAPE, _repair_surrogate, text)


def check_depth(text: str) -> None:
    """Refuse a text that is nested too deeply, as Go does."""
    if _measure_depth(text)[0] > MAX_DEPTH:
        raise _too_deep()


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return "\ufffd" if "\ud800" <= character <= "\udfff" else f"\\u{ord(character):04x}"


def _repair_surrogate(match: re.Match[str]) -> str:
    return "\\ufffd" if match[1] else match[0]


def _measure_depth(text: str) -> tuple[int, int]:
    """Give the deepest nesting and how many brackets are still open at the end."""
    depth = deepest = 0
    for match in re.finditer(_BRACKET, text):
        depth += match.lastindex == 1
        depth -= match.lastindex == 2  # noqa: PLR2004 - the group of closing brackets
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest, depth


def _decode(text: str, decoder: json.JSONDecoder) -> object:
    failure = None
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        failure = _describe(error.msg, text, error.pos, error.lineno, error.colno)
    except RecursionError:
        failure = _ends_early() if _measure_depth(text)[1] > 0 else _too_deep()
    except ValueError:
        # The interpreter refuses to convert integers of thousands of digits.
        decoder = json.JSONDecoder(
            parse_constant=_refuse_constant,
            parse_int=_read_integer,
            object_pairs_hook=decoder.object_pairs_hook,
        )
    if failure is not None:
        raise failure
    return _decode(text, decoder)


def _read_integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _refuse_constant(_name: str) -> object:
    raise _refusal("NaN and Infinity are no JSON values", "looking for beginning of value")


def _describe(problem: str, text: str, offset: int, line: int, column: int) -> DocumentError:
    unterminated = problem.startswith("Unterminated string")
    cut_escape = problem.startswith("Invalid \\u") and re.search(_UNFINISHED_ESCAPE, text[offset - 2 :])
    if unterminated or cut_escape or re.compile(_UNFINISHED_VALUE).match(text, offset):
        return _ends_early(line, column)
    reason = problem[0].lower() + problem[1:].removesuffix(" at")
    return _refusal(reason, _GO_CONTEXTS.get(problem, "in the document"), line, column)


_GO_CONTEXTS = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
}


def _refusal(reason: str, context: str, line: int | None = None, column: int | None = None) -> DocumentError:
    return DocumentError(
        f"not valid JSON: {reason}", line, column, f"invalid character {context}", "json-syntax"
    )


def _ends_early(line: int | None = None, column: int | None = None) -> DocumentError:
    text = "unexpected end of JSON input"
    return DocumentError("not valid JSON: the text ends too early", line, column, text, "json-syntax")


def _too_deep() -> DocumentError:
    message = "not readable as JSON: nested too deeply"
    return DocumentError(message, kubernetes_text="exceeded max depth", error_class="json-syntax")


class _RepeatedNameError(Exception):
    """An object has two members of one name."""


def _refuse_repeats(members: list[tuple[str, object]]) -> dict[str, object]:
    built = dict(members)
    if len(built) != len(members):
        raise _RepeatedNameError
    return built


class _Members(list[tuple[str, object]]):
    """The members of an object as written, so that repeated names stay visible."""


def _find_duplicates(text: str) -> "Iterator[Path]":
    hook = json.JSONDecoder(parse_int=str, object_pairs_hook=_Members)
    stack: list[tuple[Path, Iterator[tuple[str | int, object, bool]]]] = [((), _steps(_decode(text, hook)))]
    found = 0
    while stack and found < MAX_DUPLICATES:
        path, steps = stack[-1]
        name, child, repeated = next(steps, (None, None, False))
        if name is None:
            stack.pop()
            continue
        if repeated:
            found += 1
            yield (*path, name)
        if isinstance(child, list) and child:
            stack.append(((*path, name), _steps(child)))


def _steps(node: object) -> "Iterator[tuple[str | int, object, bool]]":
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
