"""Base64 as Go's ``encoding/base64`` decodes it: line ends are skipped, and an error gives a byte offset."""

from __future__ import annotations

from binascii import a2b_base64

_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_LINE_ENDS = b"\r\n"
_PAD = ord("=")
_QUANTUM = 4


def decode_base64(data: bytes, *, padded: bool = True) -> bytes | None:
    """Decode *data*, which has padding if *padded* and none otherwise; return None if Go rejects it."""
    text = data.translate(None, _LINE_ENDS)
    if not padded:
        if b"=" in text:
            return None
        text += b"=" * (-len(text) % _QUANTUM)
    try:
        # Python accepts '====' after complete groups.
        return None if len(text) % _QUANTUM or text.endswith(b"===") else a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


def corrupt_input_text(data: bytes, *, padded: bool = True) -> str:
    """Return Go's error text for *data* that Go rejects."""
    return f"illegal base64 data at input byte {_fault(data, padded=padded)}"


def _fault(data: bytes, *, padded: bool) -> int:
    """Return the byte offset in Go's error text, line ends included."""
    at = filled = 0
    while at < len(data):
        byte = data[at]
        at += 1
        if byte in _ALPHABET:
            filled = (filled + 1) % _QUANTUM
        elif byte == _PAD and padded:
            return _padding_fault(data, at, filled)
        elif byte not in _LINE_ENDS:
            return at - 1
    return at - filled


def _padding_fault(data: bytes, at: int, filled: int) -> int:
    """Return the offset in Go's error text for a fault after the first padding character, which is before *at*."""
    if filled < 2:  # one character is less than a byte
        return at - 1
    if filled == 2:  # two characters need two padding characters
        at = _skip_line_ends(data, at)
        if at == len(data):
            return at
        if data[at] != _PAD:
            return at - 1
        at += 1
    return _skip_line_ends(data, at)


def _skip_line_ends(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _LINE_ENDS:
        at += 1
    return at
