"""Values are frozen, equal by content, and hide their secrets."""

from __future__ import annotations

import inspect
import pickle
import pydoc
from collections.abc import Callable
from typing import Any

import pytest

from keyferry._core.values import NamedTuple, Value, field, replace


class Login(Value):
    """A value with a secret, a default and a default made anew."""

    username: str
    password: str = field(default="", repr=False)
    tags: list[str] = field(default_factory=list)


class Pair(Value):
    """Two fields without defaults."""

    left: int
    right: int


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: int = 2


class Triple(Pair):
    """A pair with one more."""

    last: int = 3


def test_a_value_of_a_kind_has_the_fields_of_the_kind_first() -> None:
    assert repr(Triple(1, 2)) == "Triple(left=1, right=2, last=3)"
    assert Triple(1, 2, 4) != Triple(1, 2)
    assert Triple(1, 2) != Pair(1, 2)


def test_fields_are_given_by_position_or_by_name_in_their_order() -> None:
    assert (Pair(1, 2).left, Pair(1, right=2).right, Pair(right=2, left=1).left) == (1, 2, 1)
    assert Login("u").password == ""
    assert Login("u").tags == []
    assert Login("u").tags is not Login("u").tags


def test_a_class_of_which_many_values_are_made_is_still_the_same() -> None:
    """After some number of values it has an ``__init__`` that was compiled for it."""

    class Kind(Login):
        number: int = 1

    class Earlier(Kind):
        size: int = 6

    first = Kind("u", "p", ["t"])
    for _ in range(200):
        Kind("u")
    assert Kind.__init__ is not Value.__init__

    class Later(Kind):
        size: int = 7

    assert first == Kind("u", "p", ["t"]) == Kind(tags=["t"], password="p", username="u")
    assert vars(first) == vars(Kind("u", "p", ["t"], 1))
    assert list(vars(Kind("u", number=3)).items()) == [
        ("username", "u"),
        ("password", ""),
        ("tags", []),
        ("number", 3),
    ]
    assert Kind("u").tags is not Kind("u").tags
    assert (Earlier("u").size, Later("u").size, Later("u", "p", [], 1, 8).size) == (6, 7, 8)
    assert inspect.signature(Kind).parameters["number"].default == 1
    too_few_and_many: tuple[tuple[Any, ...], ...] = ((), ("u", "p", [], 1, 2))
    for wrong in too_few_and_many:
        with pytest.raises(TypeError):
            Kind(*wrong)
    with pytest.raises(TypeError):
        Kind("u", other=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Kind("u").number = 2  # type: ignore[misc]


def test_a_class_of_values_shows_its_fields_as_a_signature() -> None:
    """For editors and ``help``: with types and defaults, those of the kind first."""
    shown = "(username: 'str', password: 'str' = '', tags: 'list[str]' = <factory>) -> None"
    assert str(inspect.signature(Login)) == shown
    assert str(inspect.signature(Triple)) == "(left: 'int', right: 'int', last: 'int' = 3) -> None"
    assert str(inspect.signature(Point)) == "(x: 'int', y: 'int' = 2) -> None"
    assert f"Login{shown[:20]}" in pydoc.plain(pydoc.render_doc(Login))
    assert inspect.signature(Pair).bind(1, right=2).arguments == {"left": 1, "right": 2}


def test_a_value_cannot_be_changed() -> None:
    """Setting and deleting fields is refused, as is adding one."""
    login = Login("u", "pw")
    with pytest.raises(AttributeError, match="Login is frozen: cannot set 'password'"):
        login.password = "x"  # type: ignore[misc] # that is the point
    with pytest.raises(AttributeError, match="Login is frozen: cannot set 'other'"):
        login.other = "x"
    with pytest.raises(AttributeError, match="Login is frozen: cannot delete 'username'"):
        del login.username


def test_values_are_equal_by_content_and_type() -> None:
    assert Pair(1, 2) == Pair(1, 2)
    assert hash(Pair(1, 2)) == hash(Pair(1, 2))
    assert Pair(1, 2) != Pair(2, 1)
    assert Pair(1, 2) != (1, 2)


def test_a_hidden_field_never_shows() -> None:
    assert repr(Login("u", "s3cret")) == "Login(username='u', tags=[])"


def test_a_value_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Login("u", "pw"))) == Login("u", "pw")


def test_a_copy_may_differ_in_some_fields() -> None:
    assert replace(Pair(1, 2), right=3) == Pair(1, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pair(1), "Pair needs 'right'"),  # type: ignore[call-arg] # that is the point
        (lambda: Pair(1, 2, 3), "Pair takes 2 values, 3 were given"),  # type: ignore[call-arg]
        (lambda: Pair(1, 2, left=3), "Pair got 'left', which is unknown or given twice"),  # type: ignore[misc]
        (lambda: Pair(1, 2, up=3), "Pair got 'up', which is unknown or given twice"),  # type: ignore[call-arg]
    ],
    ids=["missing", "too many", "twice", "unknown"],
)
def test_a_wrong_call_says_what_is_wrong(make: Callable[[], Pair], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_a_subclass_may_declare_a_field_anew() -> None:
    """It keeps its place; default and visibility are those of the new declaration."""

    class Base(Value):
        name: str = "base"
        secret: str = field(default="", repr=False)
        number: int = 1

    class Derived(Base):
        name: str = "derived"
        number: int = field(default=7, repr=False)
        more: str = ""

    assert Derived().name == "derived"
    assert Derived("x", "y", 3, "z") == Derived(name="x", secret="y", number=3, more="z")
    assert repr(Derived(secret="s")).endswith("Derived(name='derived', more='')")
    assert Base().number == 1


class Corner(NamedTuple):
    """A tuple with a default and a method."""

    x: int
    y: int = 0

    def sum(self) -> int:
        """Return the sum."""
        return self.x + self.y


def test_a_tuple_has_names_and_is_a_tuple() -> None:
    corner = Corner(1, 2)
    assert (corner.x, corner.y, corner.sum()) == (1, 2, 3)
    assert corner == (1, 2)
    assert [*corner] == [1, 2]
    assert hash(corner) == hash((1, 2))
    assert repr(corner) == "Corner(x=1, y=2)"
    assert (Corner(5), Corner(x=5), Corner(y=0, x=5)) == ((5, 0),) * 3
    assert pickle.loads(pickle.dumps(corner)) == corner
    assert type(pickle.loads(pickle.dumps(corner))) is Corner
    with pytest.raises(AttributeError):
        setattr(corner, "x", 3)  # noqa: B010 - a type checker refuses the plain way


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "Corner needs 'x'"),
        ((1, 2, 3), {}, "Corner takes 2 values, 3 were given"),
        ((1,), {"x": 2}, "Corner got 'x', which is unknown or given twice"),
        ((1,), {"z": 2}, "Corner got 'z', which is unknown or given twice"),
    ],
)
def test_a_wrong_tuple_says_what_is_wrong(
    args: tuple[int, ...], kwargs: dict[str, int], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        Corner(*args, **kwargs)
