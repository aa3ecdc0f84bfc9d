"""Base64 as Go's ``encoding/base64`` reads it: line ends are passed over, and an error names a byte."""

from binascii import a2b_base64

_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_LINE_ENDS = b"\r\n"
_PAD = ord("=")
_QUANTUM = 4


def decode_base64(data: bytes, *, padded: bool = True) -> bytes | None:
    """Decode *data*, with its padding or, if it is not *padded*, without any; None if Go refuses it."""
    text = data.translate(None, _LINE_ENDS)
    if not padded:
        if b"=" in text:
            return None
        text += b"=" * (-len(text) % _QUANTUM)
    try:
        # Three signs of padding pass Python where they stand alone.
        return None if len(text) % _QUANTUM or text.endswith(b"===") else a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


def corrupt_input_text(data: bytes, *, padded: bool = True) -> str:
    """Give Go's words for *data* that it refuses."""
    return f"illegal base64 data at input byte {_fault(data, padded=padded)}"


def _fault(data: bytes, *, padded: bool) -> int:
    """The offset that Go names, which counts line ends."""
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
    """The same from the first sign of padding on, which stands before *at*."""
    if filled < 2:  # a byte is more than one letter
        return at - 1
    if filled == 2:  # two letters take two signs
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
