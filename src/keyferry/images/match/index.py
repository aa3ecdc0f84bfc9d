"""Many patterns at once: the answers of `keyferry.images.match.rules`, at a cost that does not grow with them.

Patterns with the same port and number of labels and their stars in the same places share a *shape*. What a
shape looks at in a host is the key of a dictionary, so a thousand patterns are one dictionary hit per shape.
Paths are found by bisection: in a sorted list, all prefixes of a path lie on one chain.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from keyferry.errors import MatchError
from keyferry.images.match.rules import Glob, Pattern, Piece, glob_matches, parse_pattern
from keyferry.images.match.url import bytewise, parse_registry_url

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import TypeVar

    _Key = TypeVar("_Key")
    _Value = TypeVar("_Value")

__all__ = ["PatternIndex"]

_Hits = tuple[tuple[int, str], ...]
_Labels = Sequence[str]
_KeyOf = Callable[[_Labels], object]
# What decides in a label: how many characters before and after a star, all of it (-1), or nothing (0).
_View = tuple[int, int]
_Globs = tuple[tuple[int, Glob], ...]
# Port, number of labels, and the last of them unless it is a glob.
_Bucket = tuple[str, int, str | None]
# The place of a pattern among all, its owner and its text.
_Entry = tuple[int, int, str]

_ALL: _View = (-1, -1)
_NOTHING: _View = (0, 0)
_MEMO_LIMIT = 4096
# Names that parse to themselves; anything else goes through the full parser.
_PLAIN = re.compile(r'([-._0-9A-Za-z]*)(?::([0-9]*))?((?:/[ -"$&->@-~]*)?)').fullmatch
# No port of a pattern looks like this, so an image that does not parse is covered by none.
_NOWHERE = ("", "unparsable", "")


class _PathNode:
    """A path, who asks for it, and the longest other path that it begins with."""

    __slots__ = ("entries", "parent", "path")

    def __init__(self, path: str, entries: list[_Entry], parent: "_PathNode | None") -> None:
        self.path = path
        self.entries = entries
        self.parent = parent


class _Paths:
    """All paths asked for under one host."""

    __slots__ = ("nodes", "paths")

    def __init__(self, entries: dict[str, list[_Entry]]) -> None:
        self.paths: list[str] = []
        self.nodes: list[_PathNode] = []
        for path in sorted(entries):
            node = _PathNode(path, entries[path], self.longest_prefix(path))
            self.paths.append(path)
            self.nodes.append(node)

    def longest_prefix(self, path: str) -> _PathNode | None:
        """Give the longest of the paths that *path* begins with."""
        at = bisect_right(self.paths, path)
        node = self.nodes[at - 1] if at else None
        while node and not path.startswith(node.path):
            node = node.parent
        return node


_Candidate = tuple[_Globs, _Paths]
# What a shape looks at in the labels of a host, and who is found by it.
_Shape = tuple[_KeyOf, dict[object, list[_Candidate]]]


class PatternIndex:
    """An immutable set of patterns, each with an owner; answers which owners' patterns cover an image.

    Patterns that do not parse cover nothing, as in the kubelet. Safe to use from several threads.
    """

    __slots__ = ("_answers", "_closed", "_images", "_open")

    def __init__(self, patterns: Iterable[tuple[int, str]]) -> None:
        self._closed, self._open = _build(patterns)
        # Both remember what was found and are emptied when full. There are no locks: the worst that a race
        # does is to forget, or to find twice.
        self._images: dict[str, _Hits] = {}
        self._answers: dict[tuple[_PathNode, ...], _Hits] = {}

    def match(self, image: str) -> _Hits:
        """Give each owner with a pattern that covers *image*, ascending, with its first such pattern."""
        hits = self._images.get(image)
        if hits is None:
            hits = self._find(image)
            _remember(self._images, image, hits)
        return hits

    def _find(self, image: str) -> _Hits:
        plain = _PLAIN(image)
        host, port, path = plain.groups("") if plain else _parse(image)
        labels = host.split(".")
        shapes = self._closed.get((port, len(labels), labels[-1]))
        if shapes is None:
            shapes = self._open.get((port, len(labels)), [])
        nodes = []
        for key_of, candidates in shapes:
            for globs, paths in candidates.get(key_of(labels), ()):
                node = paths.longest_prefix(path)
                if node and (not globs or _globs_match(globs, labels)):
                    nodes.append(node)
        return self._answers.get(tuple(nodes)) or self._answer(tuple(nodes)) if nodes else ()

    def _answer(self, nodes: tuple[_PathNode, ...]) -> _Hits:
        hits = _first_of_each_owner(nodes)
        _remember(self._answers, nodes, hits)
        return hits


def _remember(memo: "dict[_Key, _Value]", key: "_Key", value: "_Value") -> None:
    if len(memo) >= _MEMO_LIMIT:
        memo.clear()
    memo[key] = value


def _parse(image: str) -> tuple[str, str, str]:
    try:
        url = parse_registry_url(image)
    except MatchError:
        return _NOWHERE
    return bytewise(url.host), url.port, bytewise(url.path)


def _globs_match(globs: _Globs, labels: _Labels) -> bool:
    return all(glob_matches(glob, labels[number]) for number, glob in globs)


def _first_of_each_owner(nodes: tuple[_PathNode, ...]) -> _Hits:
    first: dict[int, _Entry] = {}
    for node in nodes:
        for entry in _entries(node):
            # Entries compare by their order, which differs between any two.
            _, owner, _ = entry
            if owner not in first or entry < first[owner]:
                first[owner] = entry
    return tuple((owner, first[owner][2]) for owner in sorted(first))


def _entries(node: _PathNode | None) -> Iterator[_Entry]:
    while node:
        yield from node.entries
        node = node.parent


def _build(
    patterns: Iterable[tuple[int, str]],
) -> tuple[dict[tuple[str, int, str], list[_Shape]], dict[tuple[str, int], list[_Shape]]]:
    """Give the shapes that fix the last label, by it, and those that leave it open; the former hold both."""
    closed: dict[tuple[str, int, str], list[_Shape]] = {}
    opened: dict[tuple[str, int], list[_Shape]] = {}
    for (port, count, last), shape in _shapes(patterns):
        if last is None:
            opened.setdefault((port, count), []).append(shape)
        else:
            closed.setdefault((port, count, last), []).append(shape)
    for (port, count, _), shapes in closed.items():
        shapes.extend(opened.get((port, count), ()))
    return closed, opened


def _shapes(patterns: Iterable[tuple[int, str]]) -> Iterator[tuple[_Bucket, _Shape]]:
    drafts: dict[tuple[_Bucket, tuple[_View, ...]], list[tuple[_Entry, Pattern]]] = {}
    for order, (owner, text) in enumerate(patterns):
        pattern = _parse_or_drop(text)
        if pattern:
            views = tuple(_view(glob) for glob in pattern.globs if glob)
            last = pattern.labels[-1] if views[-1] == _ALL else None
            bucket = (pattern.url.port, len(views), last)
            drafts.setdefault((bucket, views), []).append(((order, owner, text), pattern))
    for (bucket, views), members in drafts.items():
        key_of = _key_of(views)
        yield bucket, (key_of, _candidates(key_of, members))


def _parse_or_drop(text: str) -> Pattern | None:
    try:
        pattern = parse_pattern(text)
    except MatchError:
        return None
    # A malformed glob ends every comparison that reaches it, and the others have failed before.
    return None if None in pattern.globs else pattern


def _candidates(key_of: _KeyOf, members: list[tuple[_Entry, Pattern]]) -> dict[object, list[_Candidate]]:
    grouped: dict[tuple[object, _Globs], dict[str, list[_Entry]]] = {}
    for entry, pattern in members:
        # A pattern's own labels have, before and after their stars, what the key of an image must have.
        paths = grouped.setdefault((key_of(pattern.labels), _undecided(pattern)), {})
        paths.setdefault(pattern.path, []).append(entry)
    candidates: dict[object, list[_Candidate]] = {}
    for (key, globs), entries in grouped.items():
        candidates.setdefault(key, []).append((globs, _Paths(entries)))
    return candidates


def _undecided(pattern: Pattern) -> _Globs:
    """Give the labels that the key alone does not settle."""
    return tuple((number, glob) for number, glob in enumerate(pattern.globs) if glob and not _is_simple(glob))


def _is_simple(glob: Glob) -> bool:
    """Tell whether *glob* is plain text, or a star with text on one side at most."""
    return not _has_class(glob) and not any(glob[1:-1]) and (len(glob) == 1 or not all((glob[0], glob[-1])))


def _has_class(glob: Glob) -> bool:
    return not all(isinstance(piece, str) for chunk in glob for piece in chunk)


def _view(glob: Glob) -> _View:
    if len(glob) == 1:
        return _NOTHING if _has_class(glob) else _ALL
    return _text_length(glob[0][:1]), _text_length(glob[-1][-1:])


def _text_length(pieces: tuple[Piece, ...]) -> int:
    return sum(len(piece) for piece in pieces if isinstance(piece, str))


def _key_of(views: tuple[_View, ...]) -> _KeyOf:
    # The last label needs no look where it is fixed: the shape is found by it.
    numbers = [number for number, view in enumerate(views[:-1]) if view == _ALL]
    whole: _KeyOf = itemgetter(*numbers) if numbers else _no_key
    cuts = [(number, cut) for number, view in enumerate(views) for cut in _cuts(view)]
    if not cuts:
        return whole
    if len(cuts) == 1:
        [(at, cut)] = cuts
        return lambda labels: (whole(labels), labels[at][cut])
    return lambda labels: (whole(labels), *[labels[at][cut] for at, cut in cuts])


def _cuts(view: _View) -> list[slice]:
    before, after = view
    ends = [slice(before)] if before > 0 else []
    return [*ends, slice(-after, None)] if after > 0 else ends


def _no_key(_: _Labels) -> object:
    return None
