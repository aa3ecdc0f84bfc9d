"""Hide the user info and the query of URLs, which may contain a password or a token.

This module imports nothing of keyferry, so that the errors, which are below all other modules, can use it.
"""

from __future__ import annotations

import re

HIDDEN = "***"
_SCHEME_MARK = "://"
# In an image reference these follow an '@', with or without user info before it.
_DIGESTS = ("sha256:", "sha384:", "sha512:")
_MAX_SCHEME = 32
_MIN_DIGEST = 32


def hide_user_info(url: str) -> str:
    """Return *url*, with or without a scheme, with ``***`` in place of its user info.

    Everything up to the last ``@`` counts as user info, because a password may contain a slash even though a URL may
    not have one there. The ``@`` of an image's digest does not count.
    """
    if "@" not in url:
        return url
    name, digest = _split_digest(url)
    user_info, at, place = name.rpartition("@")
    if not at:
        return url
    scheme, mark, _ = user_info.partition(_SCHEME_MARK)
    start = scheme + mark if mark and _is_scheme(scheme) else ""
    return f"{start}{HIDDEN}@{place}{digest}"


def hide_in_url(url: str) -> str:
    """Return *url* with ``***`` in place of its user info, the values of its query or fragment."""
    return _hide_rest(hide_user_info(url))


def hide_in_text(text: str) -> str:
    """Return *text* with the same hidden in every URL, up to a blank or a quotation mark; user info up to a slash."""
    if _SCHEME_MARK not in text:
        return text
    text = re.sub(r"(://)(?:[^/\s'\"\\]|\\.)*@", rf"\1{HIDDEN}@", text)
    # Punctuation at the end belongs to the sentence.
    rest = r"[?#](?:[^\s'\"\\]|\\.)*?(?=[:;,.)]*(?:[\s'\"]|$))"
    return re.sub(rf"(?<=://)[^\s'\"?#]*{rest}", lambda found: _hide_rest(found[0]), text)


def _hide_rest(url: str) -> str:
    """Return *url* with the values of its query hidden, and a fragment that has values."""
    place, mark, query = url.partition("?")
    place, sign, fragment = place.partition("#")
    return f"{place}{sign}{HIDDEN if '=' in fragment else fragment}{mark}{_hide_values(query)}"


def _hide_values(query: str) -> str:
    """Return *query* with the names of its fields alone; what has no value may be a secret itself."""
    fields = (piece.partition("=") for piece in query.split("&"))
    return "&".join(
        f"{name}={HIDDEN}" if value.strip("=") else HIDDEN if name else "" for name, _, value in fields
    )


def _split_digest(url: str) -> tuple[str, str]:
    name, at, last = url.rpartition("@")
    return (name, at + last) if _is_digest(last) else (url, "")


def _is_digest(text: str) -> bool:
    """Return whether *text* is a digest, or is meant to be one of another algorithm."""
    encoded = text.partition(":")[2]
    is_hex = len(encoded) >= _MIN_DIGEST and not encoded.strip("0123456789abcdefABCDEF")
    return is_hex or text.startswith(_DIGESTS)


def _is_scheme(text: str) -> bool:
    letters = text.replace("+", "").replace("-", "").replace(".", "")
    return 0 < len(text) <= _MAX_SCHEME and text[0].isalpha() and letters.isalnum() and text.isascii()
