"""Texts with ``${name}`` in them, the only way in which a recipe refers to a value, and the URLs made of them."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.values import Value
from keyferry._net.forms import encode_percent

__all__ = [
    "BUILT_IN",
    "OF_THE_IMAGE",
    "Piece",
    "Template",
    "TemplateError",
    "build_url",
    "host_template",
    "is_host_port",
    "is_name",
    "is_plain",
    "parse_template",
]

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz")
_REST = _FIRST | frozenset("0123456789_")
_SCHEME = "https://"
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_PATH = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/:@!$&'()*+,;=")
MAX_NAME, MAX_HOST, MAX_LABEL, MAX_PORT = 63, 253, 63, 65535
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
        pieces.append(Piece(text=before, name=name, is_path=is_path))
        before = after
    return Template(pieces=(*pieces, Piece(text=before)))


def is_name(text: str) -> bool:
    """Return whether *text* is the name of a value: a lower-case letter, then such letters, digits and ``_``."""
    return 0 < len(text) <= MAX_NAME and text[0] in _FIRST and _REST.issuperset(text)


def is_host_port(text: str) -> bool:
    """Return whether *text* is a host name or IPv4 address in lower case, with or without a port, and no more."""
    host, colon, port = text.partition(":")
    if colon and not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= MAX_PORT):
        return False
    labels = host.split(".")
    return len(host) <= MAX_HOST and all(map(_is_label, labels))


def _is_label(text: str) -> bool:
    has_edges = bool(text) and text[0] != "-" and text[-1] != "-"
    return has_edges and len(text) <= MAX_LABEL and _LETTERS.issuperset(text)


def is_plain(text: str) -> bool:
    """Return whether *text* has no control characters and no lone surrogates."""
    return not any(char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" for char in text)


def host_template(url: str) -> str:
    """Return the part of a URL's template that is its host and port; raise TemplateError if there is none."""
    if not url.startswith(_SCHEME):
        raise TemplateError("expected an https:// URL")
    return url.removeprefix(_SCHEME).partition("/")[0]


def build_url(url: str, values: Mapping[str, str]) -> str:
    """Return the URL of a template; raise TemplateError, which quotes no value, if a value does not fit.

    A value in the host may be nothing but a host and port. One in the path is one segment, ``${+name}`` several.
    """
    host = host_template(url)
    pieces = parse_template(host).pieces
    authority = "".join([piece.text + values.get(piece.name, "") for piece in pieces])
    if not is_host_port(authority):
        raise TemplateError(
            "its host is not a host name in lower case, such as registry.example.com or registry.example.com:5000"
        )
    path = url.removeprefix(_SCHEME + host)
    return (
        _SCHEME + authority + "".join([_expand_path(piece, values) for piece in parse_template(path).pieces])
    )


def _expand_path(piece: Piece, values: Mapping[str, str]) -> str:
    if not _PATH.issuperset(piece.text) or not {".", ".."}.isdisjoint(piece.text.split("/")):
        raise TemplateError(
            "its path has a character or a segment that is not allowed; use fields for a query"
        )
    if not piece.name:
        return piece.text
    value = values.get(piece.name, "")
    segments = value.split("/") if piece.is_path else [value]
    if any(segment in ("", ".", "..") or not is_plain(segment) for segment in segments):
        raise TemplateError(f"the value of {piece.name!r} cannot be a part of a path")
    return piece.text + "/".join([encode_percent(segment) for segment in segments])
