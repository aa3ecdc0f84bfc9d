"""An index of many patterns: the results of `keyferry.images.match.rules`, in a time that does not grow with them.

Patterns with the same number of labels and with stars in the same places share a *shape*. The labels without stars
are the key of a dictionary, so a thousand patterns cost one dictionary access per shape. The text beside a star
is compared only if these labels are found. Paths are found by bisection: in a sorted list, all prefixes of a path
lie on one chain.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from keyferry.errors import MatchError
from keyferry.images.match.rules import (
    Glob,
    Pattern,
    Piece,
    glob_matches,
    is_literal,
    parse_glob,
    parse_pattern,
)
from keyferry.images.match.url import bytewise, is_plain_path, parse_registry_url, split_plain_host

__all__ = ["PatternIndex"]

_Hits = tuple[tuple[int, str], ...]
# The part of a label that is compared: numbers of characters before and after the stars, all (-1) or none (0).
_View = tuple[int, int]
_Views = tuple[_View, ...]
_Globs = tuple[tuple[int, Glob], ...]

_ALL: _View = (-1, -1)
_NOTHING: _View = (0, 0)
_MEMO_LIMIT = 4096
_MOST_HOSTS = 8192
# A longer name is not remembered, so that the caches are bounded in bytes too.
_LONGEST_REMEMBERED = 512
# No pattern has this port, so no pattern covers an image that does not parse.
_NOWHERE = ("", "unparsable", "")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    _Key = TypeVar("_Key")
    _Value = TypeVar("_Value")

    # The labels of a host, followed by its port.
    _Labels = Sequence[str]
    _KeyOf = Callable[[_Labels], object]


class _PathNode:
    """A path, the patterns with this path, and the longest other path that is a prefix of it."""

    __slots__ = ("globs", "hits", "orders", "parent", "path")

    def __init__(self, path: str, globs: _Globs, orders: tuple[int, ...], parent: _PathNode | None) -> None:
        self.path = path
        self.globs = globs
        self.orders = orders
        self.parent = parent
        self.hits: _Hits = ()

    def longest_prefix(self, path: str) -> _PathNode | None:
        """Return this node if *path* begins with its path; the same method as in `_Paths`, for a single path."""
        return self if path.startswith(self.path) else None


class _Paths:
    """All paths of patterns with the same host."""

    __slots__ = ("globs", "nodes", "paths")

    def __init__(self, globs: _Globs, orders: dict[str, list[int]]) -> None:
        self.globs = globs
        self.paths: list[str] = []
        self.nodes: list[_PathNode] = []
        for path in sorted(orders):
            node = _PathNode(path, globs, tuple(orders[path]), self.longest_prefix(path))
            self.paths.append(path)
            self.nodes.append(node)

    def longest_prefix(self, path: str) -> _PathNode | None:
        """Return the node of the longest path that *path* begins with, or None."""
        at = bisect_right(self.paths, path)
        node = self.nodes[at - 1] if at else None
        while node and not path.startswith(node.path):
            node = node.parent
        return node


_Places = tuple[_PathNode | _Paths, ...]


class _Shape:
    """Patterns whose labels without stars are in the same places, by these labels, then by the text beside stars."""

    __slots__ = ("cut", "key_of", "whole")

    def __init__(self, key_of: _KeyOf) -> None:
        self.key_of = key_of
        self.whole: dict[object, _Places] = {}
        self.cut: dict[object, list[tuple[_KeyOf, dict[object, _Places]]]] = {}

    def places(self, labels: _Labels) -> _Places:
        """Return the candidates that may cover a host with these labels; the caller checks their globs."""
        key = self.key_of(labels)
        places = self.whole.get(key, ())
        if self.cut:
            for cut_of, found in self.cut.get(key, ()):
                places += found.get(cut_of(labels), ())
        return places


class PatternIndex:
    """An immutable set of patterns, each with an owner, that finds the owners whose patterns cover an image.

    Patterns that do not parse cover nothing, as in the kubelet. Safe to use from several threads.
    """

    __slots__ = ("_answers", "_closed", "_hosts", "_images", "_open", "_owned")

    def __init__(self, patterns: Iterable[tuple[int, str | Pattern]]) -> None:
        parsed = [(owner, _parse_or_drop(pattern)) for owner, pattern in patterns]
        # In the order of the patterns.
        self._owned = [(owner, pattern.text if pattern else "") for owner, pattern in parsed]
        self._closed, self._open = _build(pattern for _, pattern in parsed)
        # Two caches, which are emptied when they are full. They need no locks: a race can only lose an entry or
        # compute it twice.
        self._images: dict[str, _Hits] = {}
        self._answers: dict[tuple[_PathNode, ...], _Hits] = {}
        # What `_places` returns for the first plain hosts with their ports; images have few.
        self._hosts: dict[str, Sequence[_PathNode | _Paths]] = {}

    def match(self, image: str) -> _Hits:
        """Return each owner with a pattern that covers *image*, ascending, with its first such pattern."""
        hits = self._images.get(image)
        if hits is None:
            hits = self.find(image)
            if len(image) <= _LONGEST_REMEMBERED:
                _remember(self._images, image, hits)
        return hits

    def find(self, image: str) -> _Hits:
        """Return what `match` returns, without caching it for the image."""
        authority, slash, rest = image.partition("/")
        path, is_plain = slash + rest, is_plain_path(rest)
        places = self._hosts.get(authority) if is_plain else None
        if places is None:
            split = split_plain_host(authority) if is_plain else None
            if split is None:
                host, port, path = _parse(image)
                places = self._places(host, port)
            else:
                places = self._places(*split)
                if len(self._hosts) < _MOST_HOSTS and len(authority) <= _LONGEST_REMEMBERED:
                    self._hosts[authority] = places
        nodes = []
        for place in places:
            node = place.longest_prefix(path)
            if node:
                nodes.append(node)
        if len(nodes) == 1:
            return nodes[0].hits or self._answer_one(nodes[0])
        return self._answers.get(tuple(nodes)) or self._answer(tuple(nodes)) if nodes else ()

    def _places(self, host: str, port: str) -> Sequence[_PathNode | _Paths]:
        """Return the paths of all patterns that cover a host with this port."""
        labels = host.split(".")
        count = len(labels)
        shapes = self._closed.get((count, labels[-1]))
        if shapes is None:
            shapes = self._open.get(count, [])
        labels.append(port)
        return [
            place
            for shape in shapes
            for place in shape.places(labels)
            if not place.globs or _globs_match(place.globs, labels)
        ]

    def _answer_one(self, node: _PathNode) -> _Hits:
        if node.parent is None and len(node.orders) == 1:
            node.hits = (self._owned[node.orders[0]],)
        else:
            node.hits = self._first_of_each_owner((node,))
        return node.hits

    def _answer(self, nodes: tuple[_PathNode, ...]) -> _Hits:
        hits = self._first_of_each_owner(nodes)
        _remember(self._answers, nodes, hits)
        return hits

    def _first_of_each_owner(self, nodes: tuple[_PathNode, ...]) -> _Hits:
        first: dict[int, str] = {}
        for order in sorted(order for node in nodes for order in _orders(node)):
            owner, text = self._owned[order]
            first.setdefault(owner, text)
        return tuple(sorted(first.items()))


def _remember(memo: dict[_Key, _Value], key: _Key, value: _Value) -> None:
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


def _orders(node: _PathNode | None) -> Iterator[int]:
    while node:
        yield from node.orders
        node = node.parent


def _build(
    patterns: Iterable[Pattern | None],
) -> tuple[dict[tuple[int, str], list[_Shape]], dict[int, list[_Shape]]]:
    """Return the shapes by a last label without stars, with the other shapes added, and the other shapes alone."""
    closed: dict[tuple[int, str], list[_Shape]] = {}
    opened: dict[int, list[_Shape]] = {}
    for (count, last, numbers), places in _group(patterns).items():
        shape = _shape(numbers, places)
        if last is None:
            opened.setdefault(count, []).append(shape)
        else:
            closed.setdefault((count, last), []).append(shape)
    for (count, _), shapes in closed.items():
        shapes.extend(opened.get(count, ()))
    return closed, opened


# The number of labels, the last label unless it has a star, and the indexes of the other labels without stars.
_Bucket = tuple[int, str | None, tuple[int, ...]]


class _Sight:
    """What patterns with stars in the same places compare: whole labels by index, and cuts of other labels."""

    __slots__ = ("cut_of", "has_stars", "key_of", "numbers")

    def __init__(self, views: _Views) -> None:
        # A last label without stars is not compared, since the shape is found by it. The port is at the end.
        self.numbers = (*(number for number, view in enumerate(views[:-1]) if view == _ALL), -1)
        self.key_of: _KeyOf = itemgetter(*self.numbers)
        self.cut_of = _cut_of(views)
        self.has_stars = any(view != _ALL for view in views)


# What is compared, the key and cuts that an image must have, and globs that these do not decide.
_Seat = tuple[_Sight, object, object, _Globs]
_Grouped = dict[_Seat, dict[str, list[int]]]


def _group(patterns: Iterable[Pattern | None]) -> dict[_Bucket, _Grouped]:
    """Return the orders of the patterns by path, grouped by what they compare in a host."""
    grouped: dict[_Bucket, _Grouped] = {}
    sights: dict[_Views, _Sight] = {}
    seen: dict[str, _View] = {}
    for order, pattern in enumerate(patterns):
        if pattern is None:
            continue
        views = tuple([seen.get(label) or seen.setdefault(label, _view(label)) for label in pattern.labels])
        sight = sights.get(views) or sights.setdefault(views, _Sight(views))
        last = pattern.labels[-1] if views[-1] == _ALL else None
        labels = (*pattern.labels, pattern.url.port)
        # The text before and after the stars in a pattern's labels is the text that an image must have there.
        cut = sight.cut_of(labels) if sight.cut_of else None
        seat = sight, sight.key_of(labels), cut, _undecided(pattern) if sight.has_stars else ()
        paths = grouped.setdefault((len(views), last, sight.numbers), {}).setdefault(seat, {})
        paths.setdefault(pattern.path, []).append(order)
    return grouped


def _shape(numbers: tuple[int, ...], grouped: _Grouped) -> _Shape:
    shape = _Shape(itemgetter(*numbers))
    cuts: dict[tuple[object, _Sight], dict[object, _Places]] = {}
    for (sight, key, cut, globs), orders in grouped.items():
        place = _place(globs, orders)
        if sight.cut_of is None:
            _append(shape.whole, key, place)
            continue
        if (key, sight) not in cuts:
            cuts[key, sight] = {}
            shape.cut.setdefault(key, []).append((sight.cut_of, cuts[key, sight]))
        _append(cuts[key, sight], cut, place)
    return shape


def _append(places: dict[object, _Places], key: object, place: _PathNode | _Paths) -> None:
    places[key] = (*places[key], place) if key in places else (place,)


def _place(globs: _Globs, orders: dict[str, list[int]]) -> _PathNode | _Paths:
    if len(orders) > 1:
        return _Paths(globs, orders)
    [(path, of_path)] = orders.items()
    return _PathNode(path, globs, tuple(of_path), None)


def _parse_or_drop(pattern: str | Pattern) -> Pattern | None:
    if isinstance(pattern, str):
        try:
            pattern = parse_pattern(pattern)
        except MatchError:
            return None
    # A pattern with a malformed glob covers nothing: a comparison fails at the glob or before it.
    return None if None in pattern.globs else pattern


def _undecided(pattern: Pattern) -> _Globs:
    """Return the globs that the key alone does not decide, with the indexes of their labels."""
    return tuple(
        [(number, glob) for number, glob in enumerate(pattern.globs) if glob and not _is_simple(glob)]
    )


def _is_simple(glob: Glob) -> bool:
    """Return whether *glob* is plain text, or a star with text on at most one side."""
    if is_literal(glob):
        return True
    return not _has_class(glob) and not any(glob[1:-1]) and not all((glob[0], glob[-1]))


def _has_class(glob: Glob) -> bool:
    return not all(isinstance(piece, str) for chunk in glob for piece in chunk)


def _view(label: str) -> _View:
    if "*" not in label and "[" not in label:
        return _ALL
    glob = parse_glob(label) or ((),)  # a pattern with a malformed glob is not here
    if is_literal(glob):
        return _ALL
    if len(glob) == 1:
        return _NOTHING
    return _text_length(glob[0][:1]), _text_length(glob[-1][-1:])


def _text_length(pieces: tuple[Piece, ...]) -> int:
    return sum(len(piece) for piece in pieces if isinstance(piece, str))


def _cut_of(views: _Views) -> _KeyOf | None:
    """Return a function that reads the text beside the stars, or None if there is no such text."""
    cuts = [(number, cut) for number, view in enumerate(views) for cut in _cuts(view)]
    if not cuts:
        return None
    if len(cuts) == 1:
        [(at, cut)] = cuts
        return lambda labels: labels[at][cut]
    return lambda labels: tuple([labels[at][cut] for at, cut in cuts])


def _cuts(view: _View) -> list[slice]:
    before, after = view
    ends = [slice(before)] if before > 0 else []
    return [*ends, slice(-after, None)] if after > 0 else ends
