"""Percent-encoding for forms, queries and paths, as Go's ``net/url`` does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")


def encode_percent(text: str, safe: str = "") -> str:
    """Escape every character but letters, digits, ``-_.~`` and those in *safe*."""
    kept = _UNRESERVED.union(safe.encode())
    return "".join(
        [chr(byte) if byte in kept else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape")]
    )


def decode_percent(text: str) -> str:
    """Decode percent escapes; a ``%`` that does not start an escape is kept."""
    first, *rest = text.encode("utf-8", "surrogateescape").split(b"%")
    decoded = [first]
    for part in rest:
        digits = part[:2]
        is_escape = len(digits) == 2 and _HEX_DIGITS.issuperset(digits)  # %XX
        decoded.append(bytes((int(digits, 16),)) + part[2:] if is_escape else b"%" + part)
    return b"".join(decoded).decode("utf-8", "surrogateescape")


def encode_query(fields: Mapping[str, str] | Iterable[tuple[str, str]]) -> str:
    """Return names and values as a URL's query, in the given order, with blanks as ``%20``."""
    pairs = fields.items() if hasattr(fields, "items") else fields
    return "&".join([f"{encode_percent(name)}={encode_percent(value)}" for name, value in pairs])


def decode_query(query: str, most: int = 100) -> dict[str, str]:
    """Return the names and values of a URL's query; of a name that is repeated, the first.

    No more than *most* are read. Bytes that are no UTF-8 become U+FFFD.
    """
    found: dict[str, str] = {}
    for part in query.replace("+", " ").split("&", most)[:most]:
        name, _, value = (decode_text(each) for each in part.partition("="))
        if name:
            found.setdefault(name, value)
    return found


def decode_text(text: str) -> str:
    """Decode percent escapes; bytes that are no UTF-8 become U+FFFD."""
    return decode_percent(text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def encode_form_text(text: str) -> str:
    """Return one text as it stands in a form, with blanks as ``+``; so OAuth encodes a client's ID and secret."""
    return encode_percent(text).replace("%20", "+")


def encode_form(fields: Mapping[str, str] | Iterable[tuple[str, str]]) -> bytes:
    """Return the body of a form, ``application/x-www-form-urlencoded``."""
    return encode_query(fields).replace("%20", "+").encode("ascii")
