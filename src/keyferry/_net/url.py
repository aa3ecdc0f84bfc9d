"""URLs as Go's ``net/url`` parses and prints them, for servers, proxies, registries and images.

The kubelet and client-go use that parser, so its results, its formatting and its quirks are copied. The
private functions take and return bytewise text, see `keyferry._net.address`.
"""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry._net.address import UrlSyntaxError, bytewise, check_address, quote_raw, readable, shown
from keyferry._net.forms import decode_percent, encode_percent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = [
    "DEFAULT_PORTS",
    "Url",
    "UrlSyntaxError",
    "go_words",
    "join_url",
    "parse_request_uri",
    "parse_url",
    "read_url",
    "split_host_port",
    "split_registry_key",
    "split_registry_url",
]

DEFAULT_PORTS = {"http": 80, "https": 443}
_DIGITS = frozenset("0123456789")
_HEX_DIGITS = _DIGITS.union("abcdefABCDEF")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_UNRESERVED = _LETTERS | _DIGITS | frozenset("-_.~")
_SCHEME = _LETTERS | _DIGITS | frozenset("+-.")
_CONTROLS = frozenset(map(chr, (*range(32), 127)))
_USER_INFO = _UNRESERVED.union("!$&'()*+,;=:%@")
_ASCII_HOST = _UNRESERVED.union("!$&'()*+,;=:[]<>\"")
_HIGH_BYTES = frozenset(map(chr, range(128, 256)))
_HOST = _ASCII_HOST | _HIGH_BYTES
# The characters that may be escaped. In a host: the percent sign and bytes that are not ASCII. In a zone: the
# characters that a host may have unescaped, and a space, but no byte above 0x7f.
_HOST_ESCAPED = _HIGH_BYTES.union("%")
_ZONE_ESCAPED = _ASCII_HOST.union("% ")
# Text of these characters is printed unchanged by Go.
_KEPT_PATH = _UNRESERVED.union("!$&'()*+,;=:@[]%/")
_KEPT_FRAGMENT = _KEPT_PATH.union("?")
# The characters that Go does not escape in other text.
_SAFE_PATH = "$&+,/:;=@"
_SAFE_USER = "$&+,;="
_SAFE_HOST = "!$&'()*+,;=:[]<>\""
_SAFE_FRAGMENT = "$&+,/:;=?@!()*"


class Url(Value):
    """The parts of a URL as written; ``authority`` is None if there is no ``//``.

    ``host`` is host and port, percent-decoded; a byte that is not UTF-8 is a lone surrogate.
    """

    scheme: str = ""
    opaque: str = ""
    authority: str | None = None
    path: str = ""
    query: str | None = None
    fragment: str = ""
    host: str = ""

    @property
    def user_info(self) -> str:
        """The text before the ``@``, as written."""
        return (self.authority or "").rpartition("@")[0]

    def __str__(self) -> str:
        scheme = f"{self.scheme}:" if self.scheme else ""
        body = self.opaque or self._authority_text() + _respell(self.path, _KEPT_PATH, _SAFE_PATH)
        query = "" if self.query is None else f"?{self.query}"
        fragment = _respell(self.fragment, _KEPT_FRAGMENT, _SAFE_FRAGMENT)
        return scheme + body + query + (f"#{fragment}" if fragment else "")

    def _authority_text(self) -> str:
        if self.authority is None or not (self.authority or self.path):
            return ""
        user_info, at, host = self.authority.rpartition("@")
        parts = [encode_percent(decode_percent(part), _SAFE_USER) for part in user_info.split(":", 1)]
        return "//" + ":".join(parts) + at + encode_percent(decode_percent(host), _SAFE_HOST)


def read_url(text: str) -> Url:
    """Parse *text* as ``url.Parse`` does; raise UrlSyntaxError if it is invalid."""
    url, _, fragment = bytewise(text).partition("#")
    parsed = _parse(url, fragment, is_request=False)
    _check_fragment(fragment)
    return _readable(parsed)


def go_words(text: str, error: UrlSyntaxError) -> str:
    """Return Go's whole error text for an invalid URL: without the fragment, unless that is invalid."""
    raw = bytewise(text)
    reported = raw if error.is_in_fragment else raw.partition("#")[0]
    return f"parse {quote_raw(reported)}: {error.go_text}"


def parse_url(text: str) -> Url | None:
    """Parse *text* as ``url.Parse`` does; return None if it is invalid."""
    try:
        return read_url(text)
    except UrlSyntaxError:
        return None


def parse_request_uri(text: str) -> Url | None:
    """Parse *text* as ``url.ParseRequestURI`` does: with a scheme or a leading slash, and without fragments."""
    try:
        return _readable(_parse(bytewise(text), "", is_request=True))
    except UrlSyntaxError:
        return None


def join_url(base: str, reference: str) -> str:
    """Return the URL that *reference* denotes relative to *base*; raise ValueError if it is invalid."""
    from urllib.parse import urljoin

    return urljoin(base, reference)


def split_registry_url(text: str) -> tuple[str, str, str, str]:
    """Return authority, host, port and path of ``https://`` and *text*; raise UrlSyntaxError if it is invalid.

    All are percent-decoded; user info, query and fragment are dropped. An IPv6 address loses its brackets in the host
    only if a port follows.
    """
    url, _, fragment = bytewise(text).partition("#")
    _check_controls(url)
    authority, slash, path = url.partition("?")[0].partition("/")
    authority = _parse_authority(authority)
    path = _unescape(slash + path)
    _check_fragment(fragment)
    host, port = split_host_port(authority)
    return readable(authority), readable(host), port, readable(path)


def split_registry_key(key: str) -> tuple[str, str, str, str]:
    """Split a key of stored credentials, with or without a scheme, as ``split_registry_url`` does.

    The path of a Docker API version is dropped, but only with the slash after it.
    """
    prefix = "http://" if key.startswith("http://") else "https://"
    authority, host, port, path = split_registry_url(key.removeprefix(prefix))
    path = path[3:] if path.startswith(("/v1/", "/v2/")) else path
    return authority, host, port, "" if path == "/" else path


def split_host_port(authority: str) -> tuple[str, str]:
    """Return host and port; if they cannot be separated, all of *authority* is the host, as in the kubelet."""
    host, colon, port = authority.rpartition(":")
    if not colon or "[" in port or "]" in port:
        return authority, ""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        return (authority, "") if "[" in host or "]" in host else (host, port)
    return (authority, "") if ":" in host or "[" in host or "]" in host else (host, port)


def _readable(url: Url) -> Url:
    return Url(
        scheme=url.scheme,
        opaque=readable(url.opaque),
        authority=None if url.authority is None else readable(url.authority),
        path=readable(url.path),
        query=None if url.query is None else readable(url.query),
        fragment=readable(url.fragment),
        host=readable(url.host),
    )


def _parse(text: str, fragment: str, *, is_request: bool) -> Url:
    _check_controls(text)
    scheme, rest = _split_scheme(text)
    rest, mark, query = rest.partition("?")
    found = query if mark else None
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme=scheme, opaque=rest, authority=None, path="", query=found, fragment=fragment)
        _check_relative(rest, is_request=is_request)
    authority, host = None, ""
    # Without a scheme, three slashes start a path.
    if rest.startswith("//") and (scheme or not (is_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        host = _parse_authority(authority)
    _unescape(rest)
    return Url(
        scheme=scheme, opaque="", authority=authority, path=rest, query=found, fragment=fragment, host=host
    )


def _check_controls(text: str) -> None:
    if not _CONTROLS.isdisjoint(text):
        raise UrlSyntaxError("it has a control character", "net/url: invalid control character in URL")


def _check_fragment(fragment: str) -> None:
    try:
        _unescape(fragment)
    except UrlSyntaxError as error:
        raise UrlSyntaxError(error.why, error.go_text, is_in_fragment=True) from None


def _split_scheme(text: str) -> tuple[str, str]:
    scheme, colon, rest = text.partition(":")
    if colon and not scheme:
        raise UrlSyntaxError("it begins with a colon", "missing protocol scheme")
    if colon and scheme[0] in _LETTERS and _SCHEME.issuperset(scheme):
        return scheme.lower(), rest
    return "", text


def _check_relative(rest: str, *, is_request: bool) -> None:
    if is_request and rest != "*":
        raise UrlSyntaxError("it has neither a scheme nor a leading slash", "invalid URI for request")
    if ":" in rest.partition("/")[0]:
        go_text = "first path segment in URL cannot contain colon"
        raise UrlSyntaxError("there is a colon before the first slash, and no scheme", go_text)


def _parse_authority(authority: str) -> str:
    """Return host and port, percent-decoded."""
    user_info, _, host = authority.rpartition("@")
    host = _parse_literal(host) if "[" in host else _parse_name(host)
    if user_info:
        _check_user_info(user_info)
    return host


def _check_user_info(user_info: str) -> None:
    if not _USER_INFO.issuperset(user_info):
        why = "the user info before the '@' has a forbidden character"
        raise UrlSyntaxError(why, "net/url: invalid userinfo")
    try:
        for part in user_info.split(":", 1):
            _unescape(part)
    except UrlSyntaxError as error:
        # This message quotes nothing: the text may be part of a password.
        raise UrlSyntaxError("the user info before the '@' has a malformed escape", error.go_text) from None


def _parse_name(host: str) -> str:
    name, colon, port = host.partition(":")
    if not _DIGITS.issuperset(port):
        _refuse_port(colon + port, f"port {shown(port)} is not a number")
    return _unescape_host(name, _HOST_ESCAPED) + colon + port


def _parse_literal(host: str) -> str:
    if host.rindex("[") > 0:
        raise UrlSyntaxError("'[' is permitted only before an IPv6 address", "invalid IP-literal")
    literal, closing, port = host[1:].rpartition("]")
    if not closing:
        raise UrlSyntaxError("'[' has no matching ']'", "missing ']' in host")
    if port and not (port[0] == ":" and _DIGITS.issuperset(port[1:])):
        _refuse_port(port, f"{shown(port)} after ']' is not a port")
    address, zone_mark, zone = literal.partition("%25")
    address = _unescape_host(address, _HOST_ESCAPED) + _unescape_host(zone_mark + zone, _ZONE_ESCAPED)
    check_address(address)
    return f"[{address}]{port}"


def _refuse_port(port: str, why: str) -> NoReturn:
    raise UrlSyntaxError(why, f"invalid port {quote_raw(port)} after host")


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    decoded, end = [], 0
    at = text.find("%")
    while at >= 0:
        decoded += [text[end:at], _decode(text[at : at + 3])]
        end = at + 3
        at = text.find("%", end)
    return "".join(decoded) + text[end:]


def _unescape_host(text: str, permitted: frozenset[str]) -> str:
    if _HOST.issuperset(text):
        return text
    decoded, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "%":
            escape = text[at : at + 3]
            char = _decode(escape)
            if char not in permitted:
                _refuse_escape(escape)
            at += 2
        elif char not in _HOST:
            why = f"the host has the forbidden character {shown(char)}"
            raise UrlSyntaxError(why, f"invalid character {quote_raw(char)} in host name")
        decoded += char
        at += 1
    return decoded


def _decode(escape: str) -> str:
    if len(escape) < 3 or not _HEX_DIGITS.issuperset(escape[1:]):  # %XX
        _refuse_escape(escape)
    return chr(int(escape[1:], 16))


def _refuse_escape(escape: str) -> NoReturn:
    raise UrlSyntaxError(
        f"{shown(escape)} is not a permitted escape", f"invalid URL escape {quote_raw(escape)}"
    )


def _respell(text: str, kept: frozenset[str], safe: str) -> str:
    """Return *text* unchanged if Go could have printed it, else decoded and encoded again."""
    return text if kept.issuperset(text) else encode_percent(decode_percent(text), safe)
