"""The fields of a kind of document, and their types, by the declarations of its classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keyferry.api.wire import Shape, WireValue

__all__ = ["find_fields"]


def find_fields(cls: type[WireValue]) -> dict[str, str]:
    """Return the type of each field by its path; ``[]`` is any place of a list, and ``*`` any name of a map."""
    return dict(_fields_of(cls, ""))


def _fields_of(cls: type[WireValue], path: str) -> Iterator[tuple[str, str]]:
    for each in cls.wire_fields.values():
        yield from _shapes_of(each.shape, f"{path}.{each.name}".removeprefix("."))


def _shapes_of(shape: Shape[Any], path: str) -> Iterator[tuple[str, str]]:
    yield path, shape.title
    if isinstance(shape.of, Shape):
        yield from _shapes_of(shape.of, f"{path}.*" if shape.title == "map" else f"{path}[]")
    elif shape.of is not None:
        yield from _fields_of(shape.of, path)
