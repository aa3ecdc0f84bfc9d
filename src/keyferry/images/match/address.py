"""IPv6 addresses in brackets, judged as Go judges them, and the bytewise text that URLs are read in."""

import re

from keyferry._core.gotext import quote

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import Never

__all__ = ["ParseError", "bytewise", "check_address", "quote_raw", "readable", "shown"]

_HEX_DIGITS = re.compile(r"[0-9A-Fa-f]*")
_IPV4_TOKEN = re.compile(r"[0-9]+|.", re.DOTALL)
_GROUPS, _GROUP_DIGITS = 8, 4
_DOTS, _OCTET_DIGITS, _OCTET_MAX = 3, 3, 255


class ParseError(Exception):
    """Why a URL was refused, in our words and in Go's."""

    def __init__(self, why: str, reason: str) -> None:
        super().__init__(why, reason)
        self.why = why
        self.reason = reason


def bytewise(text: str) -> str:
    """Give *text* as one character per byte of its UTF-8 form."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:
        # No Go string holds other lone surrogates: its decoders put U+FFFD in their place.
        return re.sub("[\ud800-\udfff]", "\ufffd", text).encode().decode("latin-1")


def readable(raw: str) -> str:
    """Undo `bytewise`."""
    return raw if raw.isascii() else raw.encode("latin-1").decode("utf-8", "surrogateescape")


def quote_raw(raw: str) -> str:
    """Bytewise text in Go's quotes."""
    return quote(readable(raw))


def shown(raw: str) -> str:
    """Bytewise text for people."""
    return repr(readable(raw))


def check_address(address: str) -> None:
    """Raise ParseError unless what stood in brackets is an IPv6 address, with or without a zone."""
    kind = next((character for character in address if character in ".:%"), "")
    if kind == ".":
        _check_ipv4(address, address)
        raise ParseError("an IPv4 address takes no brackets", "invalid IP-literal")
    if kind != ":":
        _refuse_address(address, "missing IPv6 address" if kind else "unable to parse IP")
    groups, percent, zone = address.partition("%")
    if percent and not zone:
        _refuse_address(address, "zone must be a non-empty string")
    if groups != "::":
        _check_ipv6(address, groups)


def _check_ipv6(address: str, rest: str) -> None:
    gap = rest.startswith("::")
    rest = rest[2:] if gap else rest
    count = 0
    while count < _GROUPS and rest:
        tail = _skip_group(address, rest)
        if tail.startswith("."):
            _check_embedded_ipv4(address, rest, count, gap=gap)
            count, rest = count + 2, ""
            break
        count, rest = count + 1, _skip_colon(address, tail)
        if rest.startswith(":"):
            if gap:
                _refuse_address(address, "multiple :: in address", rest)
            gap, rest = True, rest[1:]
    _check_group_count(address, rest, count, gap=gap)


def _skip_group(address: str, rest: str) -> str:
    digits = _HEX_DIGITS.match(rest)
    length = digits.end() if digits else 0
    if length > _GROUP_DIGITS:
        _refuse_address(address, "each group must have 4 or less digits", rest)
    if not length:
        _refuse_address(address, "each colon-separated field must have at least one digit", rest)
    return rest[length:]


def _skip_colon(address: str, tail: str) -> str:
    if tail and tail[0] != ":":
        _refuse_address(address, "unexpected character, want colon", tail)
    if tail == ":":
        _refuse_address(address, "colon must be followed by more characters", tail)
    return tail[1:]


def _check_group_count(address: str, rest: str, count: int, *, gap: bool) -> None:
    if rest:
        _refuse_address(address, "trailing garbage after address", rest)
    if count < _GROUPS and not gap:
        _refuse_address(address, "address string too short")
    if count == _GROUPS and gap:
        _refuse_address(address, "the :: must expand to at least one field of zeros")


def _check_embedded_ipv4(address: str, rest: str, count: int, *, gap: bool) -> None:
    last = _GROUPS - 2
    if not gap and count != last:
        problem = "embedded IPv4 address must replace the final 2 fields of the address"
        _refuse_address(address, problem, rest)
    if count > last:
        problem = "too many hex fields to fit an embedded IPv4 at the end of the address"
        _refuse_address(address, problem, rest)
    _check_ipv4(address, rest)


def _check_ipv4(address: str, quad: str) -> None:
    dots = 0
    for token in _IPV4_TOKEN.finditer(quad):
        if token[0].isdecimal():
            _check_octet(address, token[0])
        elif token[0] != ".":
            _refuse_address(address, "unexpected character", quad[token.start() :])
        elif token.start() in (0, len(quad) - 1) or quad[token.start() - 1] == ".":
            _refuse_address(address, "IPv4 field must have at least one digit", quad[token.start() :])
        elif dots == _DOTS:
            _refuse_address(address, "IPv4 address too long")
        else:
            dots += 1
    if dots < _DOTS:
        _refuse_address(address, "IPv4 address too short")


def _check_octet(address: str, digits: str) -> None:
    if digits[0] == "0" != digits:
        _refuse_address(address, "IPv4 field has octet with leading zero")
    if len(digits) > _OCTET_DIGITS or int(digits) > _OCTET_MAX:
        _refuse_address(address, "IPv4 field has value >255")


def _refuse_address(address: str, problem: str, at: str = "") -> "Never":
    where = f" (at {quote_raw(at)})" if at else ""
    reason = f"invalid host: ParseAddr({quote_raw(address)}): {problem}{where}"
    raise ParseError(f"{shown(address)} in brackets is not an IPv6 address: {problem}", reason)
