"""Frozen values for wire types, without what ``dataclasses`` costs a plugin at start-up."""

from keyferry._secret import MASK

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from typing import ClassVar


class Record:
    """A frozen value with named slots; fields named in ``_secret`` never show in its repr."""

    __slots__: "tuple[str, ...]" = ()
    _secret: "ClassVar[tuple[str, ...]]" = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot delete {name!r}")

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), repr(self._values())))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._values()

    def __repr__(self) -> str:
        shown = (
            f"{name}={MASK!r}" if name in self._secret else f"{name}={getattr(self, name)!r}"
            for name in self.__slots__
        )
        return f"{type(self).__name__}({', '.join(shown)})"
