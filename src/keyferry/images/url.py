"""Registry URLs, read as Go's URL parser reads them once ``https://`` is put in front.

The kubelet compares what that parser makes of a pattern and of an image, so each of its oddities decides
who gets a credential. Go's strings are bytes; here a *bytewise* text has one character per byte, which makes
every string method byte-exact. The private functions take and give bytewise text.
"""

import re
from typing import NoReturn

from keyferry._gotext import quote
from keyferry._values import Value
from keyferry.errors import MatchError

__all__ = ["RegistryUrl", "bytewise", "hide_password", "normalise_key", "parse_registry_url", "readable"]

_HOST_ESCAPED = re.compile(r"[%\x80-\xff]")
# In a zone every character a host may have can be escaped, and a space as well, but no byte above 0x7f.
_ZONE_ESCAPED = re.compile(r"[-._~!$&'()*+,;=:\[\]<>\"0-9A-Za-z% ]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST_SPOT = re.compile(r"%.{0,2}|[^-._~!$&'()*+,;=:\[\]<>\"0-9A-Za-z\x80-\xff]", re.DOTALL)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USER_INFO = re.compile(r"[-._:~!$&'()*+,;=%@0-9A-Za-z]*")
_OPTIONAL_PORT = re.compile(r"(?::[0-9]*)?")
_HOST_AND_PORT = re.compile(r"(?:\[(?P<literal>[^\[\]]*)\]|(?P<name>[^:\[\]]*)):(?P<port>[^:\[\]]*)")
_HEX_DIGITS = re.compile(r"[0-9A-Fa-f]*")
_IPV4_TOKEN = re.compile(r"[0-9]+|.", re.DOTALL)

_GROUPS, _GROUP_DIGITS = 8, 4
_DOTS, _OCTET_DIGITS, _OCTET_MAX = 3, 3, 255


class RegistryUrl(Value):
    """What matching needs of a URL: user info, query and fragment are gone.

    ``authority`` is host and port, ``host`` and ``port`` its two halves: an IPv6 address loses its brackets
    only when a port follows. All are percent-decoded; a byte that is not UTF-8 is a lone surrogate.
    """

    authority: str
    host: str
    port: str
    path: str


class _ParseError(Exception):
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


def parse_registry_url(text: str, *, prefix: str = "https://") -> RegistryUrl:
    """Parse *text* as the URL that *prefix*, ``http://`` or ``https://``, makes of it.

    Raises MatchError with Go's own error as its ``kubernetes_text``.
    """
    raw = bytewise(text)
    url, _, fragment = raw.partition("#")
    # Go reports the URL without its fragment, unless the fragment itself is at fault.
    try:
        parsed = _parse(url)
    except _ParseError as error:
        raise _match_error(prefix, raw, url, error) from None
    try:
        _unescape(fragment)
    except _ParseError as error:
        raise _match_error(prefix, raw, raw, error) from None
    return parsed


_PLAIN_HOST = re.compile(r"[-._0-9A-Za-z]+(?::[0-9]+)?")


def normalise_key(key: str) -> str:
    """Turn the registry of a credential into the key it is kept under.

    Raises MatchError for a key that does not parse; the kubelet drops such a credential.
    """
    if _PLAIN_HOST.fullmatch(key):
        return key
    prefix = "http://" if key.startswith("http://") else "https://"
    url = parse_registry_url(key.removeprefix(prefix), prefix=prefix)
    # Docker's API versions stand for the bare host, and only with the slash behind them.
    path = url.path[3:] if url.path.startswith(("/v1/", "/v2/")) else url.path
    return url.authority + path if path != "/" else url.authority


def hide_password(text: str) -> str:
    """Give *text* with the password of its user info, if any, blotted out."""
    return re.sub(r"\A((?:[A-Za-z][A-Za-z0-9+.-]*://)?[^/?#:]*:)[^/?#]*@", r"\1***@", text)


def _match_error(prefix: str, whole: str, reported: str, error: _ParseError) -> MatchError:
    message = f"{hide_password(readable(whole))!r} is not a registry URL: {error.why}"
    return MatchError(message, f"parse {_quote(prefix + reported)}: {error.reason}")


def _quote(raw: str) -> str:
    return quote(readable(raw))


def _shown(raw: str) -> str:
    return repr(readable(raw))


def _parse(url: str) -> RegistryUrl:
    if _CONTROL.search(url):
        raise _ParseError("it has a control character", "net/url: invalid control character in URL")
    authority, slash, path = url.partition("?")[0].partition("/")
    authority = _parse_authority(authority)
    split = _HOST_AND_PORT.fullmatch(authority)
    # Where host and port cannot be told apart, the kubelet takes all of it for the host.
    host = authority if split is None else split["literal"] or split["name"] or ""
    port = "" if split is None else split["port"]
    return RegistryUrl(readable(authority), readable(host), port, readable(_unescape(slash + path)))


def _parse_authority(authority: str) -> str:
    user_info, _, host = authority.rpartition("@")
    host = _parse_literal(host) if "[" in host else _parse_name(host)
    if not _USER_INFO.fullmatch(user_info):
        raise _ParseError("what stands before the '@' has a forbidden character", "net/url: invalid userinfo")
    for part in user_info.split(":", 1):
        _check_user_info(part)
    return host


def _check_user_info(part: str) -> None:
    try:
        _unescape(part)
    except _ParseError as error:
        # Our own words quote nothing here: it may be part of a password.
        raise _ParseError("what stands before the '@' has a malformed escape", error.reason) from None


def _parse_name(host: str) -> str:
    name, colon, port = host.partition(":")
    _check_port(colon + port, f"port {_shown(port)} is not a number")
    return _unescape_host(name, _HOST_ESCAPED) + colon + port


def _parse_literal(host: str) -> str:
    if host.rindex("[") > 0:
        raise _ParseError("'[' is permitted only before an IPv6 address", "invalid IP-literal")
    literal, closing, port = host[1:].rpartition("]")
    if not closing:
        raise _ParseError("'[' has no matching ']'", "missing ']' in host")
    _check_port(port, f"{_shown(port)} after ']' is not a port")
    address, zone_mark, zone = literal.partition("%25")
    address = _unescape_host(address, _HOST_ESCAPED) + _unescape_host(zone_mark + zone, _ZONE_ESCAPED)
    _check_address(address)
    return f"[{address}]{port}"


def _check_port(port: str, why: str) -> None:
    if not _OPTIONAL_PORT.fullmatch(port):
        raise _ParseError(why, f"invalid port {_quote(port)} after host")


def _unescape(text: str) -> str:
    bad = _BAD_ESCAPE.search(text)
    if bad:
        _refuse_escape(text[bad.start() :][:3])
    return _ESCAPE.sub(_decode, text)


def _unescape_host(text: str, permitted: re.Pattern[str]) -> str:
    for spot in _HOST_SPOT.finditer(text):
        escape = _ESCAPE.fullmatch(spot[0])
        if not spot[0].startswith("%"):
            why = f"the host has the forbidden character {_shown(spot[0])}"
            raise _ParseError(why, f"invalid character {_quote(spot[0])} in host name")
        if not escape or not permitted.fullmatch(_decode(escape)):
            _refuse_escape(spot[0])
    return _ESCAPE.sub(_decode, text)


def _decode(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _refuse_escape(escape: str) -> NoReturn:
    raise _ParseError(f"{_shown(escape)} is not a permitted escape", f"invalid URL escape {_quote(escape)}")


def _check_address(address: str) -> None:
    kind = next((character for character in address if character in ".:%"), "")
    if kind == ".":
        _check_ipv4(address, address)
        raise _ParseError("an IPv4 address takes no brackets", "invalid IP-literal")
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


def _refuse_address(address: str, problem: str, at: str = "") -> NoReturn:
    where = f" (at {_quote(at)})" if at else ""
    reason = f"invalid host: ParseAddr({_quote(address)}): {problem}{where}"
    raise _ParseError(f"{_shown(address)} in brackets is not an IPv6 address: {problem}", reason)
