"""IP addresses in URLs, checked as Go checks them, loopback hosts, and the bytewise text in which URLs are parsed.

Go's strings are bytes. A *bytewise* text has one character per byte, so that every string method works on bytes.
"""

from __future__ import annotations

from keyferry._core.gotext import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


_HEX_DIGITS = "0123456789abcdefABCDEF"
_GROUPS, _GROUP_DIGITS = 8, 4
_DOTS, _OCTET_DIGITS, _OCTET_MAX = 3, 3, 255


class UrlSyntaxError(Exception):
    """The reason why a URL is invalid, in keyferry's words and in Go's."""

    def __init__(self, why: str, go_text: str, *, is_in_fragment: bool = False) -> None:
        super().__init__(why, go_text)
        self.why = why
        self.go_text = go_text
        self.is_in_fragment = is_in_fragment


def bytewise(text: str) -> str:
    """Return *text* with one character per byte of its UTF-8 form."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:
        # A Go string cannot hold lone surrogates: its decoders replace them by U+FFFD.
        valid = "".join(["\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text])
        return valid.encode().decode("latin-1")


def readable(raw: str) -> str:
    """Undo `bytewise`."""
    return raw if raw.isascii() else raw.encode("latin-1").decode("utf-8", "surrogateescape")


def quote_raw(raw: str) -> str:
    """Return bytewise text in Go's quotes."""
    return quote(readable(raw))


def shown(raw: str) -> str:
    """Return bytewise text quoted for a message."""
    return repr(readable(raw))


def check_address(address: str) -> None:
    """Raise UrlSyntaxError unless *address*, from inside brackets, is an IPv6 address, with or without a zone."""
    kind = next((character for character in address if character in ".:%"), "")
    if kind == ".":
        _check_ipv4(address, address)
        raise UrlSyntaxError("an IPv4 address must not be in brackets", "invalid IP-literal")
    if kind != ":":
        _refuse_address(address, "missing IPv6 address" if kind else "unable to parse IP")
    groups, percent, zone = address.partition("%")
    if percent and not zone:
        _refuse_address(address, "zone must be a non-empty string")
    if groups != "::":
        _check_ipv6(address, groups)


def is_loopback_host(host: str) -> bool:
    """Return whether *host*, without brackets, is ``localhost``, an address in 127.0.0.0/8, or the IPv6 address ::1.

    No name is resolved. Spellings that only some resolvers take for such an address, like ``127.1``, do not count.
    """
    if ":" in host:
        return host == "::1" or _is_long_ipv6_loopback(host)
    if not host.startswith("127."):
        return host.lower() == "localhost"
    raw = bytewise(host)
    try:
        _check_ipv4(raw, raw)
    except UrlSyntaxError:
        return False
    return True


def _is_long_ipv6_loopback(host: str) -> bool:
    from ipaddress import IPv6Address

    try:
        return str(IPv6Address(host)) == "::1"
    except ValueError:
        return False


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
    length = len(rest) - len(rest.lstrip(_HEX_DIGITS))
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
    dots = at = 0
    while at < len(quad):
        digits = len(quad) - at - len(quad[at:].lstrip("0123456789"))
        if digits:
            _check_octet(address, quad[at : at + digits])
        elif quad[at] != ".":
            _refuse_address(address, "unexpected character", quad[at:])
        elif at in (0, len(quad) - 1) or quad[at - 1] == ".":
            _refuse_address(address, "IPv4 field must have at least one digit", quad[at:])
        elif dots == _DOTS:
            _refuse_address(address, "IPv4 address too long")
        else:
            dots += 1
        at += digits or 1
    if dots < _DOTS:
        _refuse_address(address, "IPv4 address too short")


def _check_octet(address: str, digits: str) -> None:
    if digits[0] == "0" != digits:
        _refuse_address(address, "IPv4 field has octet with leading zero")
    if len(digits) > _OCTET_DIGITS or int(digits) > _OCTET_MAX:
        _refuse_address(address, "IPv4 field has value >255")


def _refuse_address(address: str, problem: str, at: str = "") -> NoReturn:
    where = f" (at {quote_raw(at)})" if at else ""
    go_text = f"invalid host: ParseAddr({quote_raw(address)}): {problem}{where}"
    raise UrlSyntaxError(f"{shown(address)} in brackets is not an IPv6 address: {problem}", go_text)
