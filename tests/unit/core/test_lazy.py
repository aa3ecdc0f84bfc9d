"""Attributes that are computed when they are first read."""

from __future__ import annotations

from functools import cached_property

from keyferry._core.values import Value


class _Square(Value):
    side: int
    computed: list[int]

    @cached_property
    def area(self) -> int:
        """The area."""
        self.computed.append(self.side)
        return self.side**2


def test_the_value_is_computed_once_for_each_instance() -> None:
    """Also of a frozen value; the second read takes what the first one left."""
    small, large = _Square(side=2, computed=[]), _Square(side=3, computed=[])
    assert (small.area, small.area, large.area) == (4, 4, 9)
    assert (small.computed, large.computed) == ([2], [3])


def test_the_attribute_is_no_field() -> None:
    """Whether it was read does not count for equality, and a read from the class gives the attribute itself."""
    read, unread = _Square(side=2, computed=[]), _Square(side=2, computed=[2])
    assert read.area == 4
    assert read == unread
    assert _Square.area.__doc__ == "The area."
