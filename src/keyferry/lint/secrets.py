"""Values that are or look like secrets: which ones a rule reports, and the lines of a file without them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from keyferry._core.documents import Document
from keyferry._core.paths import Path
from keyferry._core.positions import Position
from keyferry._core.secrets import MASK, redact
from keyferry._core.values import Value, field
from keyferry.lint.source import SourceFile

_SECRET_NAME = re.compile(
    r"(?i)passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key|access[_-]?key(?![_-]?id)|credentials?$"
)
# Endings of names for the location or a property of a secret, not for the secret itself.
_ABOUT = re.compile(
    r"(?i)(?:file|path|dir|ur[li]|endpoint|host|name|arn|id|ttl|seconds|duration|expiry|audience|type|method|mode|"
    r"version|region|enabled|scope|provider|store|socket)$"
)
_HARMLESS_VALUE = re.compile(r"(?i)/.*|true|false|yes|no|none|[0-9]{1,6}[a-z]?|[a-z][a-z0-9+.-]*://[^@]*")
_SECRET_VALUE = re.compile(
    r"\beyJ[\w-]{10,}\.[\w-]+|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s@:]+:[^/\s@]+@|"
    r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bglpat-[\w-]{15,}|\bdckr_pat_[\w-]{15,}"
)
# Text that stands for a secret which is filled in, or was taken out.
_PLACEHOLDER = re.compile(
    r"<[^<>]*>|\{\{.*\}\}|\[[A-Za-z_ -]+\]|\$\{[^{}]*\}|\$\([^()]*\)|\$[A-Za-z_]\w*|%\w+%|(?i:your)[-_ ][\w -]*|"
    r"(?i:hidden|redacted|masked|removed|(?:data\+)?omitted|placeholder|change[-_ ]?me|todo)|(?i:x{3,})|\*+|\.{3}"
)
_REFERENCE = re.compile(r"\$\{[A-Za-z_]\w*\}|\$\([A-Za-z_]\w*\)|(?<![\w$])\$[A-Z_][A-Z0-9_]+\b")
# A named secret inside JSON, YAML or a shell command.
_INNER = re.compile(
    r"""(?i)(?:token|password|secret|clientKeyData)\\*["']?\s*[:=]\s*(?:\\*["'])?([^\s"'\\,;}]+)"""
)
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


def looks_secret(name: str, value: str) -> bool:
    """Return whether the value of a variable or option looks like a secret, by its name and its form."""
    if is_placeholder(value):
        return False
    if _SECRET_VALUE.search(value):
        return True
    is_named = _SECRET_NAME.search(name) is not None and _ABOUT.search(name) is None
    return is_named and bool(value) and _HARMLESS_VALUE.fullmatch(value) is None


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for a secret that is not there: ``<client_secret>``, ``${TOKEN}``, ``HIDDEN``."""
    return _PLACEHOLDER.fullmatch(value.strip()) is not None


def refers_to_variable(value: str) -> bool:
    """Return whether a value refers to a variable, as a shell would expand it: ``${HOME}/x``."""
    return _REFERENCE.search(value) is not None


def secret_arguments(args: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield the index and a description of each argument or option value that looks like a secret.

    An option and its value in the next argument are one.
    """
    told = -1
    for index, arg in enumerate(args):
        if index == told:
            continue
        option = _OPTION.fullmatch(arg)
        name, value = (option[1], option[2]) if option else ("", None)
        if value is None:
            following = args[index + 1] if index + 1 < len(args) else ""
            value = following if option and not following.startswith("-") else ""
        if name and looks_secret(name, value):
            told = index if option and option[2] is not None else index + 1
            yield index, f"the value of option {name!r}"
        elif _SECRET_VALUE.search(arg):
            yield index, f"the value of option {name!r}" if name else "the argument"
        elif not option and _holds_secret(arg):
            yield index, "a part of the argument"


def _holds_secret(arg: str) -> bool:
    """Return whether an argument is a text with a secret inside, such as an ``echo`` of a whole ExecCredential."""
    named = (found[1] for found in _INNER.finditer(arg))
    return any(not is_placeholder(value) for value in named) and redact(arg) != arg


# The lines of a file as they may be shown.

# Fields whose values are never secrets; what looks like one is masked all the same.
_OPEN_FIELD_NAMES = """
    apiVersion kind name matchImages defaultCacheDuration serviceAccountTokenAudience cacheType
    requireServiceAccount requiredServiceAccountAnnotationKeys optionalServiceAccountAnnotationKeys
    server current-context namespace command interactiveMode installHint provideClusterInfo
    certificate-authority client-certificate client-key tokenFile tls-server-name proxy-url
    insecure-skip-tls-verify credentialPluginPolicy sha256 version
    registries preset audience issuer annotation pattern method encode url cacheKeyType caFile
    socket socketMode socketGroup providerConfig binDir pluginTimeout refreshIdle cacheEntries cacheBytes
    connections stopTimeout page metrics logLevel logFormat uids gids
    profileSourcedCLIArgsPolicy profileSourcedEnvVarsPolicy
    maxParallelImagePulls imageCredentialProviderConfigFile imageCredentialProviderBinDir
"""
_OPEN_FIELDS = frozenset(_OPEN_FIELD_NAMES.split())
# Of these, addresses, which are not shown if they may have a user name and password.
_ADDRESSES = frozenset({"matchImages", "server", "proxy-url", "registries", "issuer", "audience", "url"})
# Fields that are names in a context, and objects with secrets elsewhere.
_NAMES_IN_CONTEXTS = frozenset({"user", "cluster"})
_KEY = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s:,\[\]{}"'][^:,\[\]{}]*?)\s*:(?=\s|$|["'\[{])"""
)
_PLAIN = r"(?:[^\s,\[\]{}:#]|:(?=\S)|(?<=\S)#)+"
_TOKEN = re.compile(rf"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|{_PLAIN})""")
# A scalar behind its key; a plain one may have words.
_VALUE = re.compile(rf"[ \t]*{_TOKEN.pattern}(?:[ \t]+(?:{_PLAIN}))*")
_FIELD = re.compile(r"""(\s*(?:-\s+)*(?:\{\s*)?["']?([A-Za-z][\w.-]*)["']?\s*:)(.*)""", re.DOTALL)
_WORD = re.compile(r"""[^\s,\[\]{}"':]+""")
# A scalar in quotes that ends on its line.
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""")
# What may follow a value in flow style, and what may be on lines between two values.
_BRACKETS = re.compile(r"[\s,\[\]{}]*")
_CLOSING = re.compile(r"[\s,\]}]*")
_BETWEEN = re.compile(r"[\s,\[\]{}-]*(?:#.*)?", re.DOTALL)
# References that a shell or Kubernetes would expand: they name a secret, and are none.
_OPEN_REFERENCE = re.compile(r"\$\{[A-Za-z_]\w*\}|\$\([A-Za-z_]\w*\)")
# Such as in a comment; a name may have an '@' as well, but no ':' before it.
_USER_INFO = re.compile(r"""(?:(?<=[\s"'\[,])|\A)[^\s"'/,\[:]+:[^\s"'/,\[]+@""")


class VisibleLine(Value):
    """A line as it may be shown; *masks* are what was replaced: from, to, and the length of what is there instead."""

    text: str
    masked: str = field(repr=False)
    masks: tuple[tuple[int, int, int], ...] = ()

    def column(self, written: int) -> int:
        """Return where the character is shown that is *written* in this column of the file; both begin at 1."""
        at, shift = written - 1, 0
        for start, end, length in self.masks:
            if end <= at:
                shift += length - (end - start)
            else:
                at = min(at, start)
                break
        at += shift
        if self.text[:at] == self.masked[:at]:
            return at + 1
        # Something before it was masked because of its shape.
        return len(self.text) - len(self.text.lstrip()) + 1


def visible_lines(data: bytes) -> list[str]:
    """Return the texts of ``visible_source``."""
    return [line.text for line in visible_source(SourceFile.parse("", data))]


def visible_source(source: SourceFile) -> list[VisibleLine]:
    """Return the lines of a file with a mask in place of every value that may be a secret.

    A value is shown only if its field never has a secret, or if it is a reference to a variable; arguments and the
    values of variables are masked. If the text cannot be parsed, its lines are judged one by one. A file that is one
    plain value has no line to show, as all of it may be a secret.
    """
    lines = source.data.decode("utf-8", "replace").split("\n")
    document = source.document
    if document is None:
        return [VisibleLine(text=_without_shapes(_guarded(line)), masked=line) for line in lines]
    if document.value is not None and not isinstance(document.value, (dict, list)):
        return []
    masked = _MaskedLines(lines)
    for hidden in reversed(list(_hidden(document))):
        masked.hide(hidden)
    return [
        VisibleLine(
            text=_without_shapes(line), masked=line, masks=tuple(reversed(masked.masks.get(number, ())))
        )
        for number, line in enumerate(masked.lines)
    ]


def marked_length(line: str, column: int, *, with_value: bool) -> int:
    """Return the length of the key or value at *column*, which begins at 1.

    It ends with the value of a key, *with_value* and if it is on the same line.
    """
    start = column - 1
    found = _TOKEN.match(line, start)
    if found is None:
        return 1
    key = _KEY.match(line, start) if with_value else None
    value = _VALUE.match(line, key.end()) if key else None
    return (value or found).end() - start


def _without_shapes(line: str) -> str:
    return _USER_INFO.sub(f"{MASK}@", redact(line.rstrip("\r")))


class _Hidden(Value):
    """A value that is not shown: where it or its key begins, and where the next one begins, if there is one."""

    value: object = field(repr=False)
    start: Position
    end: Position | None
    has_key: bool


def _hidden(document: Document) -> Iterator[_Hidden]:
    """Yield the values that are not shown, in the order of the document."""
    positions = document.positions
    order = sorted({(each.line, each.column) for each in positions.values()})
    # A key that a merge or an alias brought has no position of its own.
    paths = [(path, value) for path, value in _hidden_paths(document.value, ()) if path in positions]
    for path, value in sorted(paths, key=lambda each: (positions[each[0]].line, positions[each[0]].column)):
        start = positions[path]
        at = bisect_right(order, (start.line, start.column))
        end = Position(line=order[at][0], column=order[at][1]) if at < len(order) else None
        yield _Hidden(value=value, start=start, end=end, has_key=isinstance(path[-1], str))


def _hidden_paths(value: object, at: Path, name: str = "") -> Iterator[tuple[Path, object]]:
    """Yield the values that are not shown, with their paths; *name* is that of the nearest field."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _hidden_paths(child, (*at, key), key)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _hidden_paths(child, (*at, index), name)
    elif at and value is not None and not isinstance(value, bool) and not _is_open(name, at, value):
        yield at, value


def _is_open(name: str, at: Path, value: object) -> bool:
    if isinstance(value, str) and value and not _OPEN_REFERENCE.sub("", value):
        return True
    if name in _NAMES_IN_CONTEXTS:
        return "context" in at[-2:-1]
    if at[0] == "rules" and at[2:3] == ("params",):
        return at[3:] == (name,) and name in _open_parameters() and "@" not in str(value)
    return name in _OPEN_FIELDS and not (name in _ADDRESSES and "@" in str(value))


def _open_parameters() -> set[str]:
    """Return the parameters of presets that are not secrets, which a FederationConfig has as texts."""
    from keyferry.api.federation.presets import PRESETS, load_preset

    presets = filter(None, map(load_preset, PRESETS))
    return {name for each in presets for name, known in each.parameters.items() if not known.is_secret}


class _MaskedLines:
    """The lines of a file, whose values are masked from the last to the first, so that columns stay as they are."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.masks: dict[int, list[tuple[int, int, int]]] = {}

    def hide(self, hidden: _Hidden) -> None:
        """Mask a value, up to the next one."""
        first, end = hidden.start.line - 1, hidden.end
        last = end.line - 1 if end else len(self.lines) - 1
        line, at = self.lines[first], hidden.start.column - 1
        key = _KEY.match(line, at) if hidden.has_key else None
        at = key.end() if key else at
        stop = end.column - 1 if end and first == last else len(line)
        scalar = _scalar_end(line, at, stop, hidden.value) if key or not hidden.has_key else None
        if scalar is not None:
            stop = scalar
        elif end and first == last:
            stop = _separator(line, at, stop)
        mask = MASK if scalar is None else _reference(hidden.value) + MASK
        self._replace(first, at, stop, f" {mask}" if key else mask)
        for number in range(first + 1, last + 1):
            line = self.lines[number]
            head = end.column - 1 if end and number == last else len(line)
            is_between = scalar is not None and _BETWEEN.fullmatch(line[:head])
            if line[:head].strip(" \t-\r") and not is_between:
                self._replace(number, 0, head, MASK)

    def _replace(self, number: int, start: int, stop: int, text: str) -> None:
        line = self.lines[number]
        self.lines[number] = line[:start] + text + line[stop:]
        self.masks.setdefault(number, []).append((start, stop, len(text)))


def _reference(value: object) -> str:
    """Return the reference to a variable that a path begins with."""
    found = _OPEN_REFERENCE.match(value) if isinstance(value, str) else None
    return f"{found[0]}/" if found and found.string.startswith("/", found.end()) else ""


def _scalar_end(line: str, at: int, stop: int, value: object) -> int | None:
    """Return where a scalar ends, if it is certain that it ends on its line and nothing but brackets follows."""
    begin = at + len(line[at:stop]) - len(line[at:stop].lstrip(" \t"))
    quoted = _QUOTED.match(line, begin, stop)
    if quoted:
        end = quoted.end()
    elif isinstance(value, str) and value and line.startswith(value, begin):
        end = begin + len(value)
    else:
        return None
    # Between two values of one line there may be the brackets around the next one.
    rest = line[end:stop]
    allowed = _CLOSING if stop == len(line) else _BRACKETS
    return end if allowed.fullmatch(rest) else None


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
