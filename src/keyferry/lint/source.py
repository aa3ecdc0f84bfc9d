"""The lines of a linted file as they may be shown: without values that may be secrets."""

import re
from bisect import bisect_right
from collections.abc import Iterator

from keyferry._core.documents import Document, read_document
from keyferry._core.paths import Path
from keyferry._core.positions import Position
from keyferry._core.secrets import MASK, redact
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError

__all__ = ["SourceFile", "token_length", "visible_lines"]

# Fields whose values are never secrets; what looks like one is masked all the same.
_OPEN_FIELD_NAMES = """
    apiVersion kind name matchImages defaultCacheDuration serviceAccountTokenAudience cacheType
    requireServiceAccount requiredServiceAccountAnnotationKeys optionalServiceAccountAnnotationKeys
    server current-context namespace command interactiveMode installHint provideClusterInfo
    certificate-authority client-certificate client-key tokenFile tls-server-name proxy-url
    insecure-skip-tls-verify credentialPluginPolicy sha256
    registries preset audience issuer annotation pattern method encode url cacheKeyType caFile
"""
_OPEN_FIELDS = frozenset(_OPEN_FIELD_NAMES.split())
# Of these, addresses, which are not shown if they may have a user name and password.
_ADDRESSES = frozenset({"matchImages", "server", "proxy-url", "registries", "issuer", "audience", "url"})
# Fields that are names in a context, and objects with secrets elsewhere.
_NAMES_IN_CONTEXTS = frozenset({"user", "cluster"})
_KEY = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s:,\[\]{}"'][^:,\[\]{}]*?)\s*:(?=\s|$|["'\[{])"""
)
_TOKEN = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?:[^\s,\[\]{}:#]|:(?=\S)|(?<=\S)#)+""")
_FIELD = re.compile(r"""(\s*(?:-\s+)*(?:\{\s*)?["']?([A-Za-z][\w.-]*)["']?\s*:)(.*)""", re.DOTALL)
_WORD = re.compile(r"""[^\s,\[\]{}"':]+""")
# Such as in a comment; a name may have an '@' as well, but no ':' before it.
_USER_INFO = re.compile(r"""(?:(?<=[\s"'\[,])|\A)[^\s"'/,\[:]+:[^\s"'/,\[]+@""")


class SourceFile(Value):
    """The content of a linted file."""

    path: str
    data: bytes = field(repr=False)


def visible_lines(data: bytes) -> list[str]:
    """Return the lines of a file with a mask in place of every value that may be a secret.

    A value is shown only if its field never has a secret; arguments and the values of variables are always masked. If
    the text cannot be parsed, its lines are judged one by one.
    """
    lines = data.decode("utf-8", "replace").split("\n")
    try:
        document = read_document(data)
    except DocumentError:
        return [_without_shapes(_guarded(line)) for line in lines]
    for start, end, is_key in reversed(list(_hidden(document))):
        _mask_span(lines, start, end, is_key=is_key)
    return [_without_shapes(line) for line in lines]


def token_length(line: str, column: int) -> int:
    """Return the length of the key or value at *column*, which begins at 1."""
    found = _TOKEN.match(line, column - 1)
    return len(found[0]) if found else 1


def _without_shapes(line: str) -> str:
    return _USER_INFO.sub(f"{MASK}@", redact(line.rstrip("\r")))


def _hidden(document: Document) -> Iterator[tuple[Position, Position | None, bool]]:
    """Yield where each value begins that is not shown, where the next one begins, and whether it has a key there."""
    positions = document.positions
    order = sorted({(each.line, each.column) for each in positions.values()})
    for path in _hidden_paths(document.value, ()):
        if path not in positions:
            continue  # a key that a merge or an alias brought
        start = positions[path]
        at = bisect_right(order, (start.line, start.column))
        yield start, Position(*order[at]) if at < len(order) else None, isinstance(path[-1], str)


def _hidden_paths(value: object, at: Path, name: str = "") -> Iterator[Path]:
    """Yield the paths of the values that are not shown; *name* is that of the nearest field."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _hidden_paths(child, (*at, key), key)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _hidden_paths(child, (*at, index), name)
    elif at and value is not None and not isinstance(value, bool) and not _is_open(name, at, value):
        yield at


def _is_open(name: str, at: Path, value: object) -> bool:
    if name in _NAMES_IN_CONTEXTS:
        return "context" in at[-2:-1]
    return name in _OPEN_FIELDS and not (name in _ADDRESSES and "@" in str(value))


def _mask_span(lines: list[str], start: Position, end: Position | None, *, is_key: bool) -> None:
    """Mask the value at *start*, up to the next one at *end*; later values of the same line are masked already."""
    first, last = start.line - 1, (end.line if end else len(lines)) - 1
    line, at = lines[first], start.column - 1
    key = _KEY.match(line, at) if is_key else None
    at = key.end() if key else at
    rest = ""
    if end and first == last:
        rest = line[_separator(line, at, end.column - 1) :]
    lines[first] = f"{line[:at]} {MASK}{rest}" if key else f"{line[:at]}{MASK}{rest}"
    for number in range(first + 1, last + 1):
        is_next = end is not None and number == last
        head = lines[number][: end.column - 1] if is_next and end else lines[number]
        if head.strip(" \t-\r"):
            lines[number] = MASK + lines[number][len(head) :]


def _separator(line: str, start: int, end: int) -> int:
    """Return where the separator before the next value begins: its comma, or the brackets around it."""
    found = re.search(r"[\s,\[\]{}]*$", line[start:end])
    return start + found.start() if found else end


def _guarded(line: str) -> str:
    """Return a line of a text that cannot be parsed, without values that are not known to be harmless."""
    found = _FIELD.match(line)
    if found and found[2] in _OPEN_FIELDS and "{" not in line and "@" not in line:
        return line
    head, rest = (found[1], found[3]) if found else ("", line)
    return head + _WORD.sub(lambda word: MASK if word[0].strip("-") else word[0], rest)
