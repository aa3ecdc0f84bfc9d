"""Closed sets of words and of numbers, which cost less at every start than those of ``enum``."""

__all__ = ["NumberEnum", "WordEnum"]

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import IntEnum as NumberEnum
    from enum import StrEnum as WordEnum
else:

    class _WordEnumType(type):
        """A metaclass that turns every upper-case name of a class into a member."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> "_WordEnumType":
            words = {key: value for key, value in body.items() if key.isupper()}
            made = super().__new__(cls, name, bases, {k: v for k, v in body.items() if k not in words})
            members = {}
            for key, value in words.items():
                member = members[value] = made.__new__(made, value)
                member.__dict__.update(name=key, value=value)
                type.__setattr__(made, key, member)
            type.__setattr__(made, "_members", members)
            return made

        def __call__(cls, value: str | int) -> "_Member":
            try:
                return cls._members[value]
            except KeyError:
                raise ValueError(f"{value!r} is not a valid {cls.__name__}") from None

        def __iter__(cls) -> "Iterator[_Member]":
            return iter(cls._members.values())

        def __len__(cls) -> int:
            return len(cls._members)

        def __setattr__(cls, name: str, value: object) -> None:
            raise AttributeError(f"{cls.__name__} is closed: cannot set {name!r}")

        def __delattr__(cls, name: str) -> None:
            raise AttributeError(f"{cls.__name__} is closed: cannot delete {name!r}")

    class _Member(metaclass=_WordEnumType):
        """The methods of members."""

        def __repr__(self) -> str:
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce__(self) -> tuple[object, ...]:
            return type(self), (self.value,)

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__}.{self.name} is frozen: cannot set {name!r}")

    class WordEnum(_Member, str):  # noqa: SLOT000 - a member has a name
        """A substitute for ``enum.StrEnum`` that does not import ``enum``, which would slow down a plugin's start."""

    class NumberEnum(_Member, int):
        """The same for ``enum.IntEnum``."""

        __str__ = int.__repr__
