"""Where the values of a text stand, and which of its keys are repeated; for YAML and JSON alike."""

from collections.abc import Callable, Iterator, Mapping

from keyferry._core.paths import Path
from keyferry._core.values import Value

# Far below what Go accepts, and far above any real file: callers may recurse over a value without fear.
MAX_DEPTH = 500


class Position(Value):
    """A place in a text; both numbers count from 1."""

    line: int
    column: int


class DuplicateKey(Value):
    """A mapping key given again, where it was repeated and where it stood first.

    ``kubernetes_line`` is the line go-yaml names for it: that of the repeated
    value. It is 0 in JSON, where Kubernetes names no line.
    """

    path: Path
    position: Position
    first: Position
    kubernetes_line: int = 0


class PositionNode(Value):
    """The position of one value and the places of what it contains."""

    position: Position
    children: dict[str | int, "PositionNode"]


class Positions(Mapping[Path, Position]):
    """Positions by path, kept as a tree: the paths of a deep document would not fit in memory.

    In place of the tree there may be what makes it, which is not called before somebody asks for a position.
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
