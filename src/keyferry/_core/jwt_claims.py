"""Read the header and the claims of a JSON web token, unverified; errors do not quote the token."""

from __future__ import annotations

from binascii import a2b_base64

from keyferry._core.json import loads, loads_with_duplicates
from keyferry.errors import DocumentError

_STANDARD = bytes.maketrans(b"-_", b"+/")
_PARTS = 3  # header, claims, signature


class JwtError(Exception):
    """The reason why a text is not a JSON web token."""


def read_header(token: str) -> dict[str, object]:
    """Return the header of a token; raise JwtError for a text of another form."""
    return _read_part(token, 0, is_strict=True)


def read_claims(token: str, *, is_strict: bool = True) -> dict[str, object]:
    """Return the claims of a token; raise JwtError for a text of another form.

    Unless *is_strict*, characters that are not base64 are skipped, and of claims with one name the last one counts.
    """
    return _read_part(token, 1, is_strict=is_strict)


def decode_segment(text: str, *, is_strict: bool = True) -> bytes:
    """Decode URL-safe base64 without padding; raise JwtError if it is invalid."""
    try:
        data = text.encode("ascii").translate(_STANDARD)
        # Characters that are skipped do not count, so the padding that is needed cannot be told from the length.
        padding = b"=" * (-len(data) % 4) if is_strict else b"==="
        return a2b_base64(data + padding, strict_mode=is_strict)
    except ValueError:
        pass
    raise JwtError("a part of a JSON web token is not base64")


def _read_part(token: str, at: int, *, is_strict: bool) -> dict[str, object]:
    parts = token.split(".")
    document: object = None
    if len(parts) == _PARTS:
        data = decode_segment(parts[at], is_strict=is_strict)
        try:
            document, repeated = loads_with_duplicates(data) if is_strict else (loads(data), ())
        except DocumentError:
            repeated = ()
        if repeated:
            raise JwtError("the token is not a JSON web token: it has a member more than once")
    if not isinstance(document, dict):
        raise JwtError("the token is not a JSON web token")
    return document
