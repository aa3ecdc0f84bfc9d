"""Hide the user info of URLs, which may contain a password.

This module imports nothing, so that the errors, which are below all other modules, can use it.
"""

__all__ = ["HIDDEN", "hide_in_text", "hide_user_info"]

HIDDEN = "***"
_SCHEME_MARK = "://"
# In an image reference these follow an '@', with or without user info before it.
_DIGESTS = ("sha256:", "sha384:", "sha512:")
_LONGEST_SCHEME = 32
_SHORTEST_DIGEST = 32


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


def hide_in_text(text: str) -> str:
    """Return *text* with the user info of every URL hidden, up to a slash, a blank or a quotation mark."""
    if "@" not in text or _SCHEME_MARK not in text:
        return text
    import re  # only here: a plugin that succeeds does not need it

    return re.sub(r"(://)(?:[^/\s'\"\\]|\\.)*@", rf"\1{HIDDEN}@", text)


def _split_digest(url: str) -> tuple[str, str]:
    name, at, last = url.rpartition("@")
    return (name, at + last) if _is_digest(last) else (url, "")


def _is_digest(text: str) -> bool:
    """Return whether *text* is a digest, or is meant to be one of another algorithm."""
    encoded = text.partition(":")[2]
    is_hex = len(encoded) >= _SHORTEST_DIGEST and not encoded.strip("0123456789abcdefABCDEF")
    return is_hex or text.startswith(_DIGESTS)


def _is_scheme(text: str) -> bool:
    letters = text.replace("+", "").replace("-", "").replace(".", "")
    return 0 < len(text) <= _LONGEST_SCHEME and text[0].isalpha() and letters.isalnum() and text.isascii()
