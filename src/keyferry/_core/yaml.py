"""Read YAML 1.1 by the rules of go-yaml v2, which Kubernetes uses, into values that JSON has.

PyYAML is only used as a parser. Its events are checked for syntax and then built into values with a stack instead of
recursion. PyYAML's constructors are not used, so a tag cannot create an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from time import monotonic

import yaml
from yaml.reader import ReaderError
from yaml.scanner import ScannerError

from keyferry._core.gotext import quote
from keyferry._core.json import MAX_DUPLICATES
from keyferry._core.paths import Path
from keyferry._core.positions import MAX_DOCUMENT_DEPTH, DuplicateKey, Position, PositionNode
from keyferry._core.yaml_scalars import go_scalar, is_merge_key, refuse, resolve, to_json, to_key
from keyferry.errors import DocumentError, Kind

_NO_PROBLEM = "unknown problem parsing YAML content"
# Deeper text is not checked for syntax errors: libyaml's cost per token grows with the depth.
_SCANNED_DEPTH = 2_500
_MAX_SHOWN = 1000  # the most nodes, aliases expanded, of a value that an error quotes
_FREE_DECODED, _FREE_ALIASED = 1000, 100  # below either, go-yaml does not limit aliases


def load(
    data: bytes, *, quoting: bool = False, in_python: bool = False, until: float = inf
) -> tuple[object, PositionNode, tuple[DuplicateKey, ...]]:
    """Read the first document of *data*; return its value, its positions and its repeated keys.

    With *quoting*, the ``kubernetes_text`` of an error quotes the document where go-yaml does. *in_python* selects the
    parser that works without libyaml. Raises TimeoutError if the instant *until* of the monotonic clock passes first.
    """
    builder = _Builder(quoting=quoting)
    c_parser = None if in_python else getattr(yaml, "CSafeLoader", None)
    events = _read_events(data, c_parser or yaml.SafeLoader, until, quoting=quoting)
    for event in _in_time(events, until):
        builder.take(event)
    value = to_json(builder.root.node.value, builder.root.at)
    return (
        value,
        PositionNode(position=builder.root.at, children=builder.root.node.children),
        tuple(builder.duplicates),
    )


# Stage one: from text to events; it finds every syntax error.


def _read_events(
    data: bytes, loader: type[yaml.SafeLoader], until: float, *, quoting: bool
) -> list[yaml.Event]:
    try:
        return list(_check(_in_time(yaml.parse(data, Loader=loader), until), quoting=quoting))
    except (yaml.YAMLError, ValueError) as error:
        failure = _describe(error, data)
    # Raised outside the except block: the parser's exception may contain the text.
    raise failure


def _in_time(events: Iterable[yaml.Event], until: float) -> Iterator[yaml.Event]:
    for event in events:
        if monotonic() >= until:
            raise TimeoutError
        yield event


def _check(events: Iterable[yaml.Event], *, quoting: bool) -> Iterator[yaml.Event]:
    depth = deepest = 0
    anchors: set[str | None] = set()
    for event in events:
        if isinstance(event, yaml.DocumentEndEvent):
            break
        if isinstance(event, yaml.DocumentStartEvent):
            _check_version(event)
        elif isinstance(event, yaml.AliasEvent) and event.anchor not in anchors:
            # The message does not quote the alias: it may be a password that begins with '*'.
            at, text = _start(event), f"yaml: unknown anchor {_name(event, quoting=quoting)}referenced"
            message = "the alias has no anchor; put text that begins with '*' in quotes"
            raise DocumentError(message, at.line, at.column, text)
        elif isinstance(event, yaml.NodeEvent):
            anchors.add(event.anchor)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        deepest = max(deepest, depth)
        if depth > _SCANNED_DEPTH:
            break
        yield event
    if deepest > MAX_DOCUMENT_DEPTH:
        raise DocumentError("nested too deeply", kubernetes_text="yaml: exceeded max depth of 10000")


def _name(event: yaml.AliasEvent, *, quoting: bool) -> str:
    return f"'{event.anchor}' " if quoting else ""


def _check_version(event: yaml.DocumentStartEvent) -> None:
    if event.version not in (None, (1, 1)):
        at = _start(event)
        text = f"yaml: {_name_line(at.line - 1)}found incompatible YAML document"
        raise DocumentError("only version 1.1 of YAML is supported", at.line, at.column, text)


def _describe(error: Exception, data: bytes) -> DocumentError:
    if isinstance(error, ReaderError):
        return _describe_unreadable(error, data)
    problem, mark, context_mark = _marks(error)
    line, column = (mark.line, mark.column) if mark else (0, 0)
    # go-yaml counts lines from 0 in its messages, except when its scanner is what failed.
    go_line = line + isinstance(error, ScannerError) if line else context_mark.line if context_mark else 0
    text = f"yaml: {_name_line(go_line)}{problem}"
    if isinstance(error, ScannerError) and _is_tab(data, line, column):
        problem = "a tab, which YAML does not allow for indentation; use spaces"
    return DocumentError(f"not valid YAML: {problem}", line + 1, column + 1, text)


def _is_tab(data: bytes, line: int, column: int) -> bool:
    """Return whether the character at a position, counted from 0, is a tab with only blanks before it."""
    lines = data.splitlines()
    head = lines[line][: column + 1] if line < len(lines) else b""
    return head.endswith(b"\t") and not head.strip()


def _marks(error: Exception) -> tuple[str, yaml.Mark | None, yaml.Mark | None]:
    """Return the parser's description of the problem, its position, and the position of its context."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return _NO_PROBLEM, None, None
    return error.problem or _NO_PROBLEM, error.problem_mark, error.context_mark


def _describe_unreadable(error: ReaderError, data: bytes) -> DocumentError:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    before = data[: error.position].decode(encoding, "replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return DocumentError(f"not valid YAML: {error.reason}", line, column, f"yaml: {error.reason}")


def _name_line(line: int) -> str:
    return f"line {line}: " if line else ""


def _start(event: yaml.Event) -> Position:
    mark = event.start_mark
    return Position(line=mark.line + 1, column=mark.column + 1) if mark else Position(line=1, column=1)


# Stage two: from events to values.


_NO_CHILDREN: dict[str | int, PositionNode] = {}  # shared by all scalars, never written to


class _Node:
    """A value under construction; *weight* is the number of nodes go-yaml decodes for it, aliases expanded."""

    __slots__ = ("start", "value", "is_merge", "finished", "weight", "children")

    def __init__(
        self, start: Position, value: object = None, *, is_merge: bool = False, finished: bool = True
    ) -> None:
        self.start = start
        self.value = value
        self.is_merge = is_merge
        self.finished = finished
        self.weight = 1
        self.children = _NO_CHILDREN


class _Use:
    """A node at one of its positions; an anchored node may have several."""

    __slots__ = ("node", "at", "weight", "is_alias")

    def __init__(self, node: _Node, at: Position, weight: int, *, is_alias: bool = False) -> None:
        self.node = node
        self.at = at
        self.weight = weight
        self.is_alias = is_alias


class _Key:
    """A mapping key; *kind* distinguishes ``1`` from ``"1"``, as go-yaml does."""

    __slots__ = ("name", "kind", "at", "is_merge")

    def __init__(self, name: str, kind: str, at: Position, *, is_merge: bool = False) -> None:
        self.name = name
        self.kind = kind
        self.at = at
        self.is_merge = is_merge


class _Sequence(_Node):
    __slots__ = ("items",)

    def __init__(self, start: Position, *, finished: bool) -> None:
        super().__init__(start, finished=finished)
        self.items: list[_Use] = []


class _Mapping(_Node):
    __slots__ = ("key", "entries", "firsts")

    def __init__(self, start: Position, *, finished: bool) -> None:
        super().__init__(start, finished=finished)
        self.key: _Key | _Use | None = None  # a _Use if it cannot be a key, until its value is known
        self.entries: dict[tuple[str, str], tuple[_Key, _Use]] = {}
        self.firsts: dict[tuple[str, str], Position] = {}


class _Builder:
    """Builds values from the events of one document."""

    def __init__(self, *, quoting: bool) -> None:
        self.quoting = quoting
        self.root = _Use(_Node(Position(line=1, column=1)), Position(line=1, column=1), 1)
        self.open: list[_Sequence | _Mapping] = []
        self.anchors: dict[str | None, _Node] = {}
        self.duplicates: list[DuplicateKey] = []
        self.decoded = self.aliased = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.CollectionEndEvent):
            node = self.open.pop()
            _finish(node)
            self.attach(_Use(node, node.start, node.weight))
        elif isinstance(event, yaml.AliasEvent):
            self.take_alias(event)
        elif isinstance(event, yaml.NodeEvent):
            self.take_node(event)

    def take_node(self, event: yaml.NodeEvent) -> None:
        self.spend(1, 0)
        start = _start(event)
        if isinstance(event, yaml.ScalarEvent):
            node = self.anchors[event.anchor] = _make_scalar(event, start, quoting=self.quoting)
            self.attach(_Use(node, start, 1))
            return
        kind = _Sequence if isinstance(event, yaml.SequenceStartEvent) else _Mapping
        collection = self.anchors[event.anchor] = kind(start, finished=False)
        self.open.append(collection)

    def take_alias(self, event: yaml.AliasEvent) -> None:
        node, at = self.anchors[event.anchor], _start(event)
        if not node.finished:
            raise refuse(f"anchor {_name(event, quoting=self.quoting)}value contains itself", at)
        self.spend(1 + node.weight, node.weight)
        self.attach(_Use(node, at, 1 + node.weight, is_alias=True))

    def spend(self, decoded: int, aliased: int) -> None:
        """Count work as go-yaml does, and raise DocumentError when aliases cause too much of it."""
        self.decoded += decoded
        self.aliased += aliased
        if self.aliased > max(_FREE_ALIASED, self.decoded * _allowed(self.decoded)):
            text = "yaml: document contains excessive aliasing"
            raise DocumentError("aliases expand to too many nodes", kubernetes_text=text)

    def attach(self, use: _Use) -> None:
        if not self.open:
            self.root = use
            return
        parent = self.open[-1]
        parent.weight += use.weight
        if isinstance(parent, _Sequence):
            parent.items.append(use)
        elif parent.key is None:
            parent.key = _make_key(use)
        else:
            key, parent.key = parent.key, None
            if isinstance(key, _Use):
                raise _refuse_key(key, use, quoting=self.quoting)
            if key.is_merge:
                self.merge(parent, key, use)
            else:
                self.put(parent, key, use, key.at)

    def merge(self, mapping: _Mapping, key: _Key, use: _Use) -> None:
        sources = [use]
        if isinstance(use.node, _Sequence) and not use.is_alias:
            # From last to first: of several merged mappings the earlier one has precedence.
            sources = use.node.items[::-1]
        for source in sources:
            if not isinstance(source.node, _Mapping):
                raise refuse("map merge requires map or sequence of maps as the value", source.at)
            entries = source.node.entries.values()
            self.spend(len(entries), len(entries))
            for merged, value in entries:
                self.put(mapping, merged, value, key.at)

    def put(self, mapping: _Mapping, key: _Key, use: _Use, at: Position) -> None:
        """Set an entry; overwrite an existing one and record it as a duplicate, whether merged or written out."""
        identity = (key.kind, key.name)
        if identity in mapping.entries and len(self.duplicates) < MAX_DUPLICATES:
            path = (*self.path(), key.name)
            self.duplicates.append(
                DuplicateKey(
                    path=path, position=at, first=mapping.firsts[identity], kubernetes_line=use.at.line
                )
            )
        mapping.firsts.setdefault(identity, at)
        mapping.entries[identity] = (key, use)

    def path(self) -> Path:
        """Return the path of the innermost open collection; merged entries have the path of the target."""
        path: list[str | int] = []
        merging = False
        for node in self.open[:-1]:
            if isinstance(node, _Sequence):
                path.extend([] if merging else [len(node.items)])
                merging = False
            elif isinstance(node.key, _Key):
                merging = node.key.is_merge
                path.extend([] if merging else [node.key.name])
        return tuple(path)


def _make_scalar(event: yaml.ScalarEvent, start: Position, *, quoting: bool) -> _Node:
    is_plain = event.implicit[0]
    value = resolve(event.tag, event.value, start, is_plain=is_plain, quoting=quoting)
    return _Node(start, value, is_merge=is_merge_key(event.tag, event.value, is_plain=is_plain))


def _make_key(use: _Use) -> _Key | _Use:
    if isinstance(use.node, _Sequence | _Mapping):
        raise refuse("invalid map key", use.at)
    name = to_key(use.node.value)
    if name is None:
        return use
    is_merge = use.node.is_merge and not use.is_alias
    return _Key(name, type(use.node.value).__name__, use.at, is_merge=is_merge)


def _refuse_key(key: _Use, value: _Use, *, quoting: bool) -> DocumentError:
    """Return the error of sigs.k8s.io/yaml for a key that JSON cannot represent; its text contains the value."""
    kind = "%!s(<nil>)" if key.node.value is None else "uint64"
    text = f"unsupported map key of type: {kind}"
    if quoting and value.weight <= _MAX_SHOWN:
        text += f", key: {_go_syntax(key.node)}, value: {_go_syntax(value.node)}"
    message = "null and numbers over 63 bits cannot be keys"
    return DocumentError(message, key.at.line, key.at.column, text, Kind.OTHER)


def _go_syntax(node: _Node) -> str:
    """Return a value as Go's ``%#v`` prints go-yaml's result."""
    if isinstance(node, _Sequence):
        return "[]interface {}{" + ", ".join(_go_syntax(use.node) for use in node.items) + "}"
    if isinstance(node, _Mapping):
        entries = sorted(node.entries.values(), key=lambda entry: entry[0].name)
        shown = (f"{quote(key.name)}:{_go_syntax(use.node)}" for key, use in entries)
        return "map[interface {}]interface {}{" + ", ".join(shown) + "}"
    return go_scalar(node.value)


def _finish(node: _Sequence | _Mapping) -> None:
    node.finished = True
    if isinstance(node, _Sequence):
        node.value = [to_json(use.node.value, use.at) for use in node.items]
        node.children = {
            index: PositionNode(position=use.at, children=use.node.children)
            for index, use in enumerate(node.items)
        }
    else:
        node.value = {key.name: to_json(use.node.value, use.at) for key, use in node.entries.values()}
        node.children = {
            key.name: PositionNode(position=key.at, children=use.node.children)
            for key, use in node.entries.values()
        }


def _allowed(decoded: int) -> float:
    """Return the share of *decoded* nodes that aliases may cause; it is lower for larger documents."""
    if decoded <= _FREE_DECODED:
        return 1.0
    share = (decoded - 400_000) / (4_000_000 - 400_000)
    return 0.99 - 0.89 * min(max(share, 0), 1)
