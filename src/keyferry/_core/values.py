"""Frozen values with named fields. To a type checker they are frozen dataclasses, whose import doubles every start."""

from __future__ import annotations

import sys
from collections.abc import Callable

from keyferry._core.type_forms import dataclass_transform

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from typing import Any, ClassVar, TypeVar

    V = TypeVar("V", bound="Value")

_MISSING = object()


class Field:
    """The declaration of a field: its default or the factory of it, whether ``repr`` shows it, and *metadata*."""

    def __init__(
        self, default: object, factory: Callable[[], object] | None, metadata: object, *, is_shown: bool
    ) -> None:
        self.default = default
        self.factory = factory
        self.metadata = metadata
        self.is_shown = is_shown


def field(
    *,
    default: object = _MISSING,
    default_factory: Callable[[], object] | None = None,
    repr: bool = True,  # noqa: A002 - as in dataclasses
    metadata: object = None,
) -> Any:
    """Declare a field: *default_factory* is called for each value, and *repr* tells whether it is shown."""
    return Field(default, default_factory, metadata, is_shown=repr)


class _Factory:
    """The default of a field with a factory, in a signature."""

    def __repr__(self) -> str:
        return "<factory>"


class _Signature:
    """The signature of a class of values, for editors and ``help``."""

    def __get__(self, value: object, cls: type[Value]) -> inspect.Signature:
        from inspect import Parameter, Signature

        types: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            types |= _annotations(base)
        parameters = []
        for name, declared in cls._fields.items():
            default = _Factory() if declared.factory else declared.default
            default = Parameter.empty if default is _MISSING else default
            parameters.append(
                Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
            )
        return Signature(parameters, return_annotation=None)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Value:
    """The base of frozen values. Its annotated names are the fields; values are built by keyword."""

    _fields: ClassVar[dict[str, Field]] = {}
    __signature__ = _Signature()

    def __init_subclass__(cls) -> None:
        cls._fields = dict(cls._fields)
        for name in _annotations(cls):
            given = cls.__dict__.get(name, _MISSING)
            if isinstance(given, Field):
                delattr(cls, name)
                cls._fields[name] = given
            else:
                cls._fields[name] = Field(given, None, None, is_shown=True)

    def __init__(self, *args: object, **values: Any) -> None:
        if args:
            raise TypeError(f"{type(self).__name__} is built by keyword: {', '.join(self._fields)}")
        own = self.__dict__
        for name, declared in self._fields.items():
            if name in values:
                own[name] = values.pop(name)
            elif declared.factory is not None:
                own[name] = declared.factory()
            elif declared.default is not _MISSING:
                own[name] = declared.default
            else:
                raise TypeError(f"{type(self).__name__} needs {name!r}")
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(map(repr, values))}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and fields(self) == fields(other)

    def __hash__(self) -> int:
        return hash((type(self), *fields(self).values()))

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in fields(self).items() if self._fields[name].is_shown]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def fields(value: Value) -> dict[str, Any]:
    """Return the fields of *value* by name, in the order of their declaration."""
    return {name: value.__dict__[name] for name in value._fields}


def replace(value: V, /, **changes: object) -> V:
    """Return a copy of *value* with some fields changed."""
    return type(value)(**fields(value) | changes)


def _annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of *cls* itself, without those of its bases; they are not evaluated."""
    if sys.version_info >= (3, 14) and "__annotations__" not in cls.__dict__:
        from annotationlib import Format, get_annotations

        return get_annotations(cls, format=Format.STRING)
    found: dict[str, Any] = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 - its own alone
    return found
