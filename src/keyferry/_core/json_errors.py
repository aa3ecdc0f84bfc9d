"""JSON out of the ordinary: what is wrong with a text, which members repeat, what needs escapes.

Loaded only when there is such a text; see ``json``. Errors carry no part of the document unless a caller lets
them name the character at fault, and they are raised outside ``except`` blocks: Python's own decoding errors keep
the whole text.
"""

import json
import re
from itertools import islice
from math import inf

from keyferry._core.json_wording import ENDS_EARLY, brackets, constant_text, go_syntax_text
from keyferry._core.paths import Path
from keyferry.errors import DocumentError, Kind

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterator

# Compiled when first used: most runs need none of them, and compiling takes milliseconds.
# Every escape is matched, so that the second half of an escaped backslash starts none.
_ESCAPE = r"(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
_NOT_WRITTEN_RAW = "[<>&\u2028\u2029\ud800-\udfff]"


def decode_plain(text: str, quoted: bytes | str | None = None) -> object:
    """Parse exactly one JSON value; of members with the same name the last one wins.

    *quoted* is the text as it came, if an error may quote from it.
    """
    return _decode(text, _PLAIN, quoted)


def decode_noting_duplicates(
    text: str, quoted: bytes | str | None = None, *, at_most: int
) -> tuple[object, tuple[Path, ...]]:
    """As ``decode_plain``, with the paths of repeated members, in document order and *at_most* so many."""
    try:
        return _decode(text, _UNREPEATED, quoted), ()
    except _RepeatedNameError:
        pass
    return _decode(text, _PLAIN, quoted), tuple(islice(_find_duplicates(text), at_most))


def encode(value: object) -> str:
    """Write compact JSON with Go's escapes."""
    return escape(_ENCODER.encode(value))


def escape(text: str) -> str:
    """Escape in JSON *text* what Go does not write as it is."""
    return re.sub(_NOT_WRITTEN_RAW, _escape, text)


def repair_surrogates(text: str) -> str:
    """Put U+FFFD for escapes that are half of a pair."""
    return re.sub(_ESCAPE, _repair_surrogate, text)


def check_depth(text: str, deepest: int) -> None:
    """Refuse a text that is nested more deeply than *deepest*, as Go does."""
    if _measure_depth(text, deepest)[0] > deepest:
        raise _too_deep()


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return "\ufffd" if "\ud800" <= character <= "\udfff" else f"\\u{ord(character):04x}"


def _repair_surrogate(match: re.Match[str]) -> str:
    return "\\ufffd" if match[1] else match[0]


def _measure_depth(text: str, enough: float = inf) -> tuple[int, int]:
    """Give the deepest nesting, or what exceeds *enough*, and how many brackets are still open at the end."""
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
        failure = _refusal("the constants NaN and Infinity are no JSON values", go_text)
    except RecursionError:
        failure = _refusal("", ENDS_EARLY) if _measure_depth(text)[1] > 0 else _too_deep()
    except ValueError:
        # The interpreter refuses to convert integers of thousands of digits.
        decoder = json.JSONDecoder(
            parse_constant=_refuse_constant,
            parse_int=_read_integer,
            object_pairs_hook=decoder.object_pairs_hook,
        )
    if failure is not None:
        raise failure
    return _decode(text, decoder, quoted)


def _shown(quoted: bytes | str | None) -> str | None:
    """The text to quote from: as long as the one that is read, with bytes that are not UTF-8 as surrogates."""
    if isinstance(quoted, bytes):
        return quoted.decode("utf-8", "surrogateescape")
    return None if quoted is None else re.sub("[\ud800-\udfff]", "\ufffd", quoted)


def _read_integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


class _ConstantError(Exception):
    """A constant that is no JSON."""

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
