"""Registry URLs, read as Go's URL parser reads them once ``https://`` is put in front.

The kubelet compares what that parser makes of a pattern and of an image, so each of its oddities decides
who gets a credential. Go's strings are bytes; here a *bytewise* text has one character per byte, which makes
every string method byte-exact. The private functions take and give bytewise text.
"""

import re

from keyferry._core.values import Value
from keyferry.errors import MatchError
from keyferry.images.match.address import ParseError, bytewise, check_address, quote_raw, readable, shown

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import Never

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


class RegistryUrl(Value):
    """What matching needs of a URL: user info, query and fragment are gone.

    ``authority`` is host and port, ``host`` and ``port`` its two halves: an IPv6 address loses its brackets
    only when a port follows. All are percent-decoded; a byte that is not UTF-8 is a lone surrogate.
    """

    authority: str
    host: str
    port: str
    path: str


def parse_registry_url(text: str, *, prefix: str = "https://") -> RegistryUrl:
    """Parse *text* as the URL that *prefix*, ``http://`` or ``https://``, makes of it.

    Raises MatchError with Go's own error as its ``kubernetes_text``.
    """
    raw = bytewise(text)
    url, _, fragment = raw.partition("#")
    # Go reports the URL without its fragment, unless the fragment itself is at fault.
    try:
        parsed = _parse(url)
    except ParseError as error:
        raise _match_error(prefix, raw, url, error) from None
    try:
        _unescape(fragment)
    except ParseError as error:
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


def _match_error(prefix: str, whole: str, reported: str, error: ParseError) -> MatchError:
    message = f"{hide_password(readable(whole))!r} is not a registry URL: {error.why}"
    return MatchError(message, f"parse {quote_raw(prefix + reported)}: {error.reason}")


def _parse(url: str) -> RegistryUrl:
    if _CONTROL.search(url):
        raise ParseError("it has a control character", "net/url: invalid control character in URL")
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
        raise ParseError("what stands before the '@' has a forbidden character", "net/url: invalid userinfo")
    for part in user_info.split(":", 1):
        _check_user_info(part)
    return host


def _check_user_info(part: str) -> None:
    try:
        _unescape(part)
    except ParseError as error:
        # Our own words quote nothing here: it may be part of a password.
        raise ParseError("what stands before the '@' has a malformed escape", error.reason) from None


def _parse_name(host: str) -> str:
    name, colon, port = host.partition(":")
    _check_port(colon + port, f"port {shown(port)} is not a number")
    return _unescape_host(name, _HOST_ESCAPED) + colon + port


def _parse_literal(host: str) -> str:
    if host.rindex("[") > 0:
        raise ParseError("'[' is permitted only before an IPv6 address", "invalid IP-literal")
    literal, closing, port = host[1:].rpartition("]")
    if not closing:
        raise ParseError("'[' has no matching ']'", "missing ']' in host")
    _check_port(port, f"{shown(port)} after ']' is not a port")
    address, zone_mark, zone = literal.partition("%25")
    address = _unescape_host(address, _HOST_ESCAPED) + _unescape_host(zone_mark + zone, _ZONE_ESCAPED)
    check_address(address)
    return f"[{address}]{port}"


def _check_port(port: str, why: str) -> None:
    if not _OPTIONAL_PORT.fullmatch(port):
        raise ParseError(why, f"invalid port {quote_raw(port)} after host")


def _unescape(text: str) -> str:
    bad = _BAD_ESCAPE.search(text)
    if bad:
        _refuse_escape(text[bad.start() :][:3])
    return _ESCAPE.sub(_decode, text)


def _unescape_host(text: str, permitted: re.Pattern[str]) -> str:
    for spot in _HOST_SPOT.finditer(text):
        escape = _ESCAPE.fullmatch(spot[0])
        if not spot[0].startswith("%"):
            why = f"the host has the forbidden character {shown(spot[0])}"
            raise ParseError(why, f"invalid character {quote_raw(spot[0])} in host name")
        if not escape or not permitted.fullmatch(_decode(escape)):
            _refuse_escape(spot[0])
    return _ESCAPE.sub(_decode, text)


def _decode(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _refuse_escape(escape: str) -> "Never":
    raise ParseError(f"{shown(escape)} is not a permitted escape", f"invalid URL escape {quote_raw(escape)}")
