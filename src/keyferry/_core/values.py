"""Frozen values with named fields, whose classes are cheap to define.

``dataclasses`` generates and compiles source code for every class, which takes a millisecond each. A command loads
fifty of them. Here all classes share one set of methods. Type checkers treat them as frozen dataclasses.
"""

from __future__ import annotations

import sys
from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

    V = TypeVar("V", bound="Value")
else:

    def dataclass_transform(**_):
        """Return a decorator that does nothing; only type checkers use it."""
        return lambda cls: cls


__all__ = ["NamedTuple", "Value", "field", "replace"]

_MISSING = object()
_UNTIL_COMPILED = 100
_COMPILED = "<__init__ of a Value>"


class _Field:
    """The arguments of ``field``, until the class reads them."""

    __slots__ = ("default", "factory", "is_shown", "metadata")

    def __init__(self, default: object, factory: object, metadata: object, *, is_shown: bool) -> None:
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
    """Declare a field: *default_factory* is called for each value, and *repr* tells whether it is shown.

    The class keeps *metadata* for others.
    """
    return _Field(default, default_factory, metadata, is_shown=repr)


class _Factory:
    """The default of a field with a factory, in a signature."""

    def __repr__(self) -> str:
        return "<factory>"


class _Signature:
    """The signature of a class of values, for editors and ``help``; computed on request, because inspect is costly."""

    def __get__(self, value: object, cls: type[Value]) -> inspect.Signature:
        made_anew = dict.fromkeys(cls._factories, _Factory())
        return _signature(cls, cls._names, made_anew | cls._defaults)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value:
    """The base of frozen values. Its annotated names are the fields, in order, with or without defaults."""

    _names: ClassVar[tuple[str, ...]] = ()
    _shown: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, object]] = {}
    _factories: ClassVar[dict[str, Callable[[], object]]] = {}
    _metadata: ClassVar[dict[str, object]] = {}
    _template: ClassVar[dict[str, object]] = {}
    _fewest: ClassVar[int] = 0
    _most: ClassVar[int] = 0
    # Each value takes one number; when none is left, the class gets an ``__init__`` of its own.
    _until_compiled: ClassVar[Iterator[int]] = iter(())
    __signature__ = _Signature()

    def __init_subclass__(cls) -> None:
        declared = tuple(_annotations(cls))
        cls._defaults, cls._factories = dict(cls._defaults), dict(cls._factories)
        cls._metadata = dict(cls._metadata)
        hidden = {name for name in declared if not _take_in(cls, name)}
        # A field that a subclass declares again keeps its place and takes the new default.
        cls._names += tuple(name for name in declared if name not in cls._names)
        kept = {*cls._shown, *declared} - hidden
        cls._shown = tuple(name for name in cls._names if name in kept)
        # With so many positional arguments, only fields with plain defaults can be missing.
        cls._fewest = max(
            (at for at, name in enumerate(cls._names, 1) if name not in cls._defaults), default=0
        )
        cls._most = len(cls._names)
        cls._template = {name: cls._defaults.get(name) for name in cls._names}
        cls._until_compiled = iter(range(_UNTIL_COMPILED))
        if cls.__init__ is Value.__init__ or cls.__init__.__code__.co_filename == _COMPILED:
            # Its own, and not inherited: one that is compiled for its base has other fields.
            cls.__init__ = Value.__init__  # type: ignore[method-assign]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if next(self._until_compiled, None) is None:
            _compile_init(type(self))
        names, given = self._names, len(args)
        if kwargs or not self._fewest <= given <= self._most:
            values = dict(zip(names, args))  # noqa: B905 - _fill_in finds too many
            _fill_in(type(self).__name__, names, self._defaults, self._factories, values, given, kwargs)
            object.__setattr__(self, "__dict__", values)
            return
        values = self.__dict__
        if given != self._most:
            values.update(self._template)
        values.update(zip(names, args))  # noqa: B905 - fewer are allowed

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash((type(self), _values(self)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)
        return f"{type(self).__qualname__}({shown})"


def _compile_init(cls: type[Value]) -> None:
    """Give a class of which many values are made an ``__init__`` of its own, which takes a quarter of the time.

    To compile it takes as long as to make a hundred values, which a command that makes a few does not pay for.
    """
    if cls.__init__ is not Value.__init__:
        return  # another thread was quicker
    shown = {name: f"=_defaults[{name!r}]" for name in cls._defaults} | dict.fromkeys(
        cls._factories, "=_MISSING"
    )
    lines = [f"def __init__(_self, {', '.join(name + shown.get(name, '') for name in cls._names)}):"]
    lines += [f" if {name} is _MISSING: {name} = _factories[{name!r}]()" for name in cls._factories]
    lines += [" _values = _self.__dict__", *(f" _values[{name!r}] = {name}" for name in cls._names)]
    made: dict[str, Any] = {"_defaults": cls._defaults, "_factories": cls._factories, "_MISSING": _MISSING}
    exec(compile("\n".join(lines), _COMPILED, "exec"), made)  # noqa: S102 - the names of fields alone, as in dataclasses
    cls.__init__ = made["__init__"]  # type: ignore[method-assign] # it does the same


def _take_in(cls: type[Value], name: str) -> bool:
    """Read the default of the field *name* from its class; return whether the field is shown."""
    given = cls.__dict__.get(name, _MISSING)
    cls._defaults.pop(name, None)
    cls._factories.pop(name, None)
    cls._metadata.pop(name, None)
    if isinstance(given, _Field):
        delattr(cls, name)
        if given.metadata is not None:
            cls._metadata[name] = given.metadata
        if given.factory is not None:
            cls._factories[name] = given.factory  # type: ignore[assignment] # field declares it callable
        if given.default is not _MISSING:
            cls._defaults[name] = given.default
        return given.is_shown
    if given is not _MISSING:
        cls._defaults[name] = given
    return True


def replace(value: V, **changes: object) -> V:
    """Return a copy of *value* with some fields changed."""
    return type(value)(**{name: getattr(value, name) for name in value._names} | changes)


def _values(value: Value) -> tuple[object, ...]:
    return tuple([value.__dict__[name] for name in value._names])


def _fill_in(  # noqa: PLR0917 - the parts of a class
    who: str,
    names: tuple[str, ...],
    defaults: dict[str, object],
    factories: dict[str, Callable[[], object]],
    values: dict[str, object],
    given: int,
    kwargs: dict[str, object],
) -> None:
    """Add the fields after the *given* first ones to *values*, in the order of the fields; raise TypeError."""
    if given > len(names):
        raise TypeError(f"{who} takes {len(names)} values, {given} were given")
    for name in names[given:]:
        if name in kwargs:
            values[name] = kwargs.pop(name)
        elif name in defaults:
            values[name] = defaults[name]
        elif name in factories:
            values[name] = factories[name]()
        else:
            raise TypeError(f"{who} needs {name!r}")
    if kwargs:
        raise TypeError(f"{who} got {', '.join(map(repr, kwargs))}, which is unknown or given twice")


def _signature(cls: type, names: tuple[str, ...], defaults: dict[str, object]) -> inspect.Signature:
    from inspect import Parameter, Signature

    hints: dict[str, object] = {}
    for each in reversed(cls.__mro__):
        hints |= _annotations(each)
    kind, none = Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty
    fields = (
        Parameter(name, kind, default=defaults.get(name, none), annotation=hints[name]) for name in names
    )
    return Signature(list(fields), return_annotation=None)


def _annotations(cls: type) -> Mapping[str, object]:
    if sys.version_info >= (3, 14):
        try:
            return cls.__annotations__
        except (AttributeError, NameError, TypeError):
            # Imported here: a plugin's start would take a third longer.
            from annotationlib import Format, get_annotations

            return get_annotations(cls, format=Format.FORWARDREF)
    found: Mapping[str, object] = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 - inspect is costly
    return found


if not TYPE_CHECKING:

    class _TupleSignature:
        def __get__(self, value, cls):
            return _signature(cls, cls._fields, cls._field_defaults)

    class _Tuple(tuple):
        __slots__ = ()
        __signature__ = _TupleSignature()

        def __new__(cls, *args, **kwargs):
            if kwargs or len(args) != len(cls._fields):
                values = dict(zip(cls._fields, args))  # noqa: B905 - _fill_in finds too many
                _fill_in(cls.__name__, cls._fields, cls._field_defaults, {}, values, len(args), kwargs)
                args = values.values()
            return tuple.__new__(cls, args)

        # As in ``collections``: of all values, in order and not checked, without a call of Python code.
        _make = classmethod(tuple.__new__)

        def __repr__(self):
            shown = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return tuple(self)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **changes):
            return type(self)(**self._asdict() | changes)

    class _TupleType(type):
        def __new__(cls, name, bases, body):
            made = super().__new__(cls, name, bases, body)
            if not bases:
                return made
            fields = tuple(_annotations(made))
            own = {name: given for name, given in body.items() if name not in fields}
            own |= {name: property(itemgetter(at)) for at, name in enumerate(fields)}
            defaults = {name: body[name] for name in fields if name in body}
            own |= {"__slots__": (), "_fields": fields, "_field_defaults": defaults}
            return type(name, (_Tuple,), own)

    class NamedTuple(metaclass=_TupleType):
        """A tuple with named fields as in ``typing``, which is slow to import; subclasses have no other bases."""
