"""Forms of ``typing`` that classes are made with, for modules whose start must not pay for its import."""

from __future__ import annotations

__all__ = ["Generic", "Protocol", "T", "dataclass_transform"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, Protocol, TypeVar, dataclass_transform

    T = TypeVar("T")
else:

    class Generic:
        """A base class that allows subscription."""

        __slots__ = ()
        __class_getitem__ = classmethod(lambda cls, _: cls)

    class Protocol:
        """A base class that does nothing."""

        __slots__ = ()

    T = None

    def dataclass_transform(**_: object) -> object:
        """Return a decorator that does nothing."""
        return lambda cls: cls
