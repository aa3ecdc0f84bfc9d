"""Values are frozen, equal by content, built by keyword, and hide their secrets."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from functools import cached_property

import pytest

from keyferry._core.values import Value, field, fields, replace


class Login(Value):
    """A value with a secret, a default and a default made anew."""

    username: str
    password: str = field(default="", repr=False)
    tags: list[str] = field(default_factory=list)


class Pair(Value):
    """Two fields without defaults."""

    left: int
    right: int


class Triple(Pair):
    """A pair with one more."""

    last: int = 3


def test_a_value_of_a_kind_has_the_fields_of_the_kind_first() -> None:
    assert repr(Triple(left=1, right=2)) == "Triple(left=1, right=2, last=3)"
    assert Triple(left=1, right=2, last=4) != Triple(left=1, right=2)
    assert Triple(left=1, right=2) != Pair(left=1, right=2)
    assert list(fields(Triple(last=1, right=2, left=3)).items()) == [("left", 3), ("right", 2), ("last", 1)]


def test_a_class_of_values_shows_its_fields_as_a_signature() -> None:
    """For editors and ``help``: with types and defaults, those of the kind first."""
    shown = "(*, username: 'str', password: 'str' = '', tags: 'list[str]' = <factory>) -> None"
    assert str(inspect.signature(Login)) == shown
    assert str(inspect.signature(Triple)) == "(*, left: 'int', right: 'int', last: 'int' = 3) -> None"
    assert f"Login{shown[:20]}" in pydoc.plain(pydoc.render_doc(Login))


def test_a_value_cannot_be_changed() -> None:
    """Setting and deleting fields is refused, as is adding one."""
    login = Login(username="u", password="pw")
    with pytest.raises(AttributeError, match="Login is frozen: cannot set 'password'"):
        login.password = "x"  # type: ignore[misc] # that is the point
    with pytest.raises(AttributeError, match="Login is frozen: cannot set 'other'"):
        login.other = "x"
    with pytest.raises(AttributeError, match="Login is frozen: cannot delete 'username'"):
        del login.username


def test_values_are_equal_by_content_and_type() -> None:
    assert Pair(left=1, right=2) == Pair(right=2, left=1)
    assert hash(Pair(left=1, right=2)) == hash(Pair(left=1, right=2))
    assert Pair(left=1, right=2) != Pair(left=2, right=1)
    assert Pair(left=1, right=2) != (1, 2)


def test_a_hidden_field_never_shows() -> None:
    assert repr(Login(username="u", password="s3cret")) == "Login(username='u', tags=[])"


def test_a_default_of_a_factory_is_made_for_each_value() -> None:
    Login(username="u").tags.append("one")
    assert Login(username="v").tags == []


def test_a_copy_may_differ_in_some_fields() -> None:
    assert replace(Pair(left=1, right=2), right=3) == Pair(left=1, right=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pair(left=1), "Pair needs 'right'"),  # type: ignore[call-arg] # that is the point
        (lambda: Pair(1, 2), "Pair is built by keyword: left, right"),  # type: ignore[call-arg]
        (lambda: Pair(left=1, right=2, up=3), "Pair has no field 'up'"),  # type: ignore[call-arg]
    ],
    ids=["missing", "by position", "unknown"],
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
    assert list(fields(Derived())) == ["name", "secret", "number", "more"]
    assert repr(Derived(secret="s")).endswith("Derived(name='derived', more='')")
    assert Base().number == 1


class _Square(Value):
    side: int
    computed: list[int]

    @cached_property
    def area(self) -> int:
        """The area."""
        self.computed.append(self.side)
        return self.side**2


def test_a_cached_property_is_computed_once_for_each_value_and_is_no_field() -> None:
    """Whether it was read does not count for equality."""
    small, large = _Square(side=2, computed=[]), _Square(side=3, computed=[])
    assert (small.area, small.area, large.area) == (4, 4, 9)
    assert (small.computed, large.computed) == ([2], [3])
    assert small == _Square(side=2, computed=[2])
