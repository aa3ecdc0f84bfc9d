"""Texts with ``${name}`` in them, the only way in which a recipe refers to a value."""

from __future__ import annotations

from keyferry._core.values import Value

__all__ = ["BUILT_IN", "OF_THE_IMAGE", "Piece", "Template", "TemplateError", "is_name", "parse_template"]

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz")
_REST = _FIRST | frozenset("0123456789_")
_LONGEST_NAME = 63
# The values that every recipe can refer to.
OF_THE_IMAGE = ("image", "repository")
BUILT_IN = ("subject", "registry", *OF_THE_IMAGE)


class TemplateError(Exception):
    """The reason why a text is not a template."""


class Piece(Value):
    """A literal text and the name of the value after it, empty at the end of the template.

    A value that *is_path* may have slashes, which stay: ``${+name}``.
    """

    text: str
    name: str = ""
    is_path: bool = False


class Template(Value):
    """The pieces of a text."""

    pieces: tuple[Piece, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all values, in their order."""
        return tuple([piece.name for piece in self.pieces if piece.name])

    @property
    def literals(self) -> str:
        """The text without its values."""
        return "".join([piece.text for piece in self.pieces])


def parse_template(text: str) -> Template:
    """Return the pieces of *text*; raise TemplateError if a ``${`` is not followed by a name and ``}``."""
    first, *rest = text.split("${")
    pieces, before = [], first
    for part in rest:
        name, brace, after = part.partition("}")
        is_path = name.startswith("+")
        name = name.removeprefix("+")
        if not brace or not is_name(name):
            raise TemplateError(
                "'${' is not followed by a name of lower-case letters, digits and '_', and '}'"
            )
        pieces.append(Piece(before, name, is_path))
        before = after
    return Template((*pieces, Piece(before)))


def is_name(text: str) -> bool:
    """Return whether *text* is the name of a value: a lower-case letter, then such letters, digits and ``_``."""
    return 0 < len(text) <= _LONGEST_NAME and text[0] in _FIRST and _REST.issuperset(text)
