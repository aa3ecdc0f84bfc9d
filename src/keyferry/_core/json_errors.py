"""The slow path of ``json``: syntax errors, repeated members and escapes.

It is imported only when a document needs it. Errors contain no part of the document unless the caller allows the
character at fault. They are raised outside ``except`` blocks, because Python's decoding errors keep the whole text.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from math import inf

from keyferry._core.json_wording import ENDS_EARLY, brackets, constant_text, go_syntax_text
from keyferry._core.paths import Path
from keyferry.errors import DocumentError, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Patterns are compiled at first use: most runs need none of them, and compiling takes milliseconds.
# All escapes are matched, so that the second backslash of an escaped backslash does not start one.
_ESCAPE = r"(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
_NOT_WRITTEN_RAW = "[<>&\u2028\u2029\ud800-\udfff]"


def decode_plain(text: str, quoted: bytes | str | None = None) -> object:
    """Parse exactly one JSON value; of members with the same name the last one wins.

    *quoted* is the original text if an error may quote it.
    """
    return _decode(text, _PLAIN, quoted)


def decode_noting_duplicates(
    text: str, quoted: bytes | str | None = None, *, at_most: int
) -> tuple[object, tuple[Path, ...]]:
    """Parse as ``decode_plain`` does; also return the first *at_most* paths of repeated members, in order."""
    try:
        return _decode(text, _UNREPEATED, quoted), ()
    except _RepeatedNameError:
        pass
    return _decode(text, _PLAIN, quoted), tuple(islice(_find_duplicates(text), at_most))


def encode(value: object) -> str:
    """Write compact JSON with Go's escapes."""
    return escape(_ENCODER.encode(value))


def escape(text: str) -> str:
    """Escape the characters of JSON *text* that Go does not write unescaped."""
    return re.sub(_NOT_WRITTEN_RAW, _escape, text)


def repair_surrogates(text: str) -> str:
    """Replace escapes of unpaired surrogates by U+FFFD."""
    return re.sub(_ESCAPE, _repair_surrogate, text)


def check_depth(text: str, deepest: int) -> None:
    """Raise DocumentError if *text* is nested more deeply than *deepest*, as Go does."""
    if _measure_depth(text, deepest)[0] > deepest:
        raise _too_deep()


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return "\ufffd" if "\ud800" <= character <= "\udfff" else f"\\u{ord(character):04x}"


def _repair_surrogate(match: re.Match[str]) -> str:
    return "\\ufffd" if match[1] else match[0]


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
