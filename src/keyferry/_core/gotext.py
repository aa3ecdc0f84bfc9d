"""Text as Go programs print it, so that messages of keyferry and of Kubernetes match in a search.

Bytes that are not UTF-8 are given as ``surrogateescape`` decodes them, U+DC80 to U+DCFF.
"""

from __future__ import annotations

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quote(text: str) -> str:
    """Quote *text* as ``%q`` and ``strconv.Quote`` do."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quote_rune, text)) + '"'


def quote_rune(char: str) -> str:
    """Quote one character as ``strconv.QuoteRune`` does; a byte that is not UTF-8 is written as its number."""
    shown = {"'": "\\'", '"': '"'}.get(char) or _quote_rune(char)
    return f"'{shown}'"


def quote_bytewise(text: str) -> str:
    """Quote *text* as the errors of Go's ``time`` package do: ASCII unchanged, other characters byte by byte."""
    return '"' + "".join(map(_quote_bytes, text)) + '"'


def _quote_rune(char: str) -> str:
    escape = _ESCAPES.get(char)
    if escape is not None:
        return escape
    # Python and Go have the same printable characters: all but the categories C and Z, plus the ASCII space.
    if char.isprintable():
        return char
    return _escape_rune(ord(char))


def _escape_rune(code: int) -> str:
    if code < ord(" ") or code == 0x7F:  # DEL
        return f"\\x{code:02x}"
    if _is_surrogate(code):
        byte = _escaped_byte(code)
        return "\ufffd" if byte is None else f"\\x{byte:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # beyond the BMP


def _quote_bytes(char: str) -> str:
    if char in ('"', "\\"):
        return "\\" + char
    # DEL is not escaped: the time package only escapes control characters below the space.
    if " " <= char <= "\x7f":
        return char
    return "".join(f"\\x{byte:02x}" for byte in _encode(char))


def _encode(char: str) -> bytes:
    if not _is_surrogate(ord(char)):
        return char.encode()
    byte = _escaped_byte(ord(char))
    return "\ufffd".encode() if byte is None else bytes((byte,))


def _is_surrogate(code: int) -> bool:
    return 0xD800 <= code <= 0xDFFF  # Unicode's range


def _escaped_byte(code: int) -> int | None:
    """Return the byte that a surrogate stands for, or None; Go reads all other surrogates as U+FFFD."""
    return code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else None  # PEP 383


def go_strerror(error: OSError | ValueError) -> str:
    """Return the system's text for an error number as Go prints it, which is in lower case.

    A ValueError comes from Python's own check for NUL, for which the system returns "invalid argument".
    """
    if not isinstance(error, OSError):
        return "invalid argument"
    text = error.strerror or str(error) or "input/output error"
    return text[:1].lower() + text[1:]
