"""An attribute that is computed when it is first read."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property as lazy
else:

    class lazy:  # noqa: N801 - a decorator, as property is
        """A ``functools.cached_property`` without the lock that it takes up to Python 3.11.

        Two threads that read the attribute at the same time may both compute it.
        """

        def __init__(self, compute: "Callable[[object], object]") -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value


__all__ = ["lazy"]
