"""The members of a JSON object as parts of its text, so that a shim can pass them on without decoding them."""

from __future__ import annotations

__all__ = ["read_members"]

_BLANKS = b" \t\r\n"
_SCALAR = frozenset(b"-+.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_CONTROLS = bytes(range(0x20))
_CLOSING = {0x7B: 0x7D, 0x5B: 0x5D}  # {} and []
_QUOTE, _BACKSLASH = 0x22, 0x5C
_MOST_DEPTH = 64


def read_members(text: bytes, *names: bytes) -> dict[bytes, bytes] | None:
    """Return the values of the members *names* of the one object in *text*, each as it is written.

    Return None if *text* is not one object, or has one of them twice. Strings and brackets are checked; what else
    stands in a value is its reader's business.
    """
    found: dict[bytes, bytes] = {}
    try:
        at = _blanks(text, _expect(text, _blanks(text, 0), b"{"))
        is_first = True
        while text[at : at + 1] != b"}":
            at = at if is_first else _blanks(text, _expect(text, at, b","))
            is_first = False
            end = _string(text, at)
            name = text[at + 1 : end - 1]
            at = _blanks(text, _expect(text, _blanks(text, end), b":"))
            end = _value(text, at)
            if name in names:
                if name in found:
                    return None
                found[name] = text[at:end]
            at = _blanks(text, end)
        return found if _blanks(text, at + 1) == len(text) else None
    except ValueError:
        return None


def _blanks(text: bytes, at: int) -> int:
    while text[at : at + 1] and text[at] in _BLANKS:
        at += 1
    return at


def _expect(text: bytes, at: int, wanted: bytes) -> int:
    if text[at : at + 1] != wanted:
        raise ValueError
    return at + 1


def _string(text: bytes, at: int) -> int:
    """Return the end of the string at *at*, behind its last quote."""
    start = end = _expect(text, at, b'"')
    while True:
        end = text.index(b'"', end)
        before = end - 1
        while before >= start and text[before] == _BACKSLASH:
            before -= 1
        if (end - before) % 2:
            break
        end += 1
    inside = text[start:end]
    # An escaped character may be anything, as in a program that looks at one after the other.
    if len(inside.translate(None, _CONTROLS)) != len(inside) and _has_control(inside):
        raise ValueError
    return end + 1


def _has_control(inside: bytes) -> bool:
    at = 0
    while at < len(inside):
        if inside[at] < 0x20:
            return True
        at += 2 if inside[at] == _BACKSLASH else 1
    return False


def _value(text: bytes, at: int) -> int:
    """Return the end of the value at *at*."""
    first = text[at : at + 1]
    if first == b'"':
        return _string(text, at)
    if first in (b"{", b"["):
        return _nested(text, at)
    end = at
    while end < len(text) and text[end] in _SCALAR:
        end += 1
    if end == at:
        raise ValueError
    return end


def _nested(text: bytes, at: int) -> int:
    closing: list[int] = []
    while True:
        if at >= len(text):
            raise ValueError
        found = text[at]
        if found == _QUOTE:
            at = _string(text, at)
            continue
        at += 1
        if found in _CLOSING:
            if len(closing) == _MOST_DEPTH:
                raise ValueError
            closing.append(_CLOSING[found])
        elif found in (0x7D, 0x5D):
            if closing.pop() != found:
                raise ValueError
            if not closing:
                return at
