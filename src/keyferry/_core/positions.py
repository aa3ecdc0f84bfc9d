"""The positions of values in a text, and its repeated keys, for YAML and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from keyferry._core.paths import Path
from keyferry._core.values import Value

# Far below Go's limit and far above any real file, so that callers may recurse over a value.
MAX_DOCUMENT_DEPTH = 500


class Position(Value):
    """A position in a text; both numbers start at 1."""

    line: int
    column: int


class DuplicateKey(Value):
    """A repeated mapping key: its path, the position of the repetition and that of the first key.

    ``kubernetes_line`` is the line in go-yaml's error, which is that of the repeated value. It is 0 for JSON, where
    Kubernetes names no line.
    """

    path: Path
    position: Position
    first: Position
    kubernetes_line: int = 0


class PositionNode(Value):
    """The position of a value and the nodes of its children."""

    position: Position
    children: dict[str | int, PositionNode]


class Positions(Mapping[Path, Position]):
    """Positions by path, stored as a tree: the paths of a deep document would not fit in memory.

    *tree* is the tree, or a function that returns it, which is called when the first position is read.
    """

    def __init__(self, tree: PositionNode | Callable[[], PositionNode]) -> None:
        self._tree = tree

    @property
    def _root(self) -> PositionNode:
        if not isinstance(self._tree, PositionNode):
            self._tree = self._tree()
        return self._tree

    def __getitem__(self, path: Path) -> Position:
        place = self._root
        for step in path:
            place = place.children[step]
        return place.position

    def __iter__(self) -> Iterator[Path]:
        waiting: list[tuple[Path, PositionNode]] = [((), self._root)]
        while waiting:
            path, place = waiting.pop()
            yield path
            waiting.extend(((*path, step), child) for step, child in reversed(place.children.items()))

    def __len__(self) -> int:
        return sum(1 for _ in self)
