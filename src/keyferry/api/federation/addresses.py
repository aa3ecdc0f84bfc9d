"""The URLs of a recipe, which consist of what the file says and of nothing else, and names of registries."""

from __future__ import annotations

from keyferry.api.federation.templates import TemplateError, parse_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.api.federation.templates import Piece

__all__ = ["build_url", "host_template", "is_host_port", "is_plain"]

_SCHEME = "https://"
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_PATH = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/:@!$&'()*+,;=")
_LONGEST_HOST, _LONGEST_LABEL = 253, 63
_MOST_PORT = 65535


def is_host_port(text: str) -> bool:
    """Return whether *text* is a host name or IPv4 address in lower case, with or without a port, and no more."""
    host, colon, port = text.partition(":")
    if colon and not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= _MOST_PORT):
        return False
    labels = host.split(".")
    return len(host) <= _LONGEST_HOST and all(map(_is_label, labels))


def _is_label(text: str) -> bool:
    has_edges = bool(text) and text[0] != "-" and text[-1] != "-"
    return has_edges and len(text) <= _LONGEST_LABEL and _LETTERS.issuperset(text)


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
    from keyferry._net.forms import encode_percent  # here, because most paths have no values

    return piece.text + "/".join([encode_percent(segment) for segment in segments])
