"""URLs as Go's ``net/url`` parses and prints them, for servers and proxies.

client-go reads authentication settings only where that parser sees ``https``, and hands plugins the proxy as
it prints it, so its verdict and its spelling matter; its error texts are never shown and are not kept.
"""

import re

from keyferry._core.values import Value
from keyferry._net.forms import decode_percent, encode_percent

__all__ = ["Url", "hide_password", "parse_request_uri", "parse_url"]

_SCHEME = re.compile(r"([A-Za-z][-+.0-9A-Za-z]*):(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USER_INFO = re.compile(r"[-._:~!$&'()*+,;=%@0-9A-Za-z]*")
# Escapes in a host may only stand for a percent sign or for bytes that are not ASCII.
_HOST_NAME = re.compile(r"""(?:[^\x00-\x20#%/?@\\^`{|}\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])*""")
_PORT = re.compile(r"(?::[0-9]*)?")
_VALID_PATH = re.compile(r"[-_.~!$&'()*+,;=:@\[\]%/0-9A-Za-z]*")
_VALID_FRAGMENT = re.compile(r"[-_.~!$&'()*+,;=:@\[\]%/?0-9A-Za-z]*")

_SAFE_PATH = "$&+,/:;=@"
_SAFE_USER = "$&+,;="
_SAFE_HOST = "!$&'()*+,;=:[]<>\""
_SAFE_FRAGMENT = "$&+,/:;=?@!()*"


class Url(Value):
    """A URL in parts, each as written; ``authority`` is None where there is no ``//``."""

    scheme: str = ""
    opaque: str = ""
    authority: str | None = None
    path: str = ""
    query: str | None = None
    fragment: str = ""

    @property
    def host(self) -> str:
        """Host and port."""
        return (self.authority or "").rpartition("@")[2]

    def __str__(self) -> str:
        scheme = f"{self.scheme}:" if self.scheme else ""
        body = self.opaque or self._authority_text() + _respell(self.path, _VALID_PATH, _SAFE_PATH)
        query = "" if self.query is None else f"?{self.query}"
        fragment = _respell(self.fragment, _VALID_FRAGMENT, _SAFE_FRAGMENT)
        return scheme + body + query + (f"#{fragment}" if fragment else "")

    def _authority_text(self) -> str:
        if self.authority is None or not (self.authority or self.path):
            return ""
        user_info, at, host = self.authority.rpartition("@")
        parts = [_spell(part, _SAFE_USER) for part in user_info.split(":", 1)]
        return "//" + ":".join(parts) + at + _spell(host, _SAFE_HOST)


def parse_url(text: str) -> Url | None:
    """Parse as ``url.Parse`` does; None is a refusal."""
    rest, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        return None
    return _parse(rest, fragment, is_request=False)


def parse_request_uri(text: str) -> Url | None:
    """Parse as ``url.ParseRequestURI`` does: it wants a scheme or a leading slash, and ``#`` ends no path."""
    return _parse(text, "", is_request=True) if text else None


def hide_password(text: str) -> str:
    """Give *text* with the user info of its URL, if any, blotted out."""
    # Up to the last '@' of all: a password with a slash in it makes no URL, and is still a password.
    return re.sub(r"(?s)\A([A-Za-z][-+.0-9A-Za-z]*://)?.*@", r"\1***@", text)


def _parse(text: str, fragment: str, *, is_request: bool) -> Url | None:
    if _CONTROL.search(text) or text.startswith(":"):
        return None
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", text)
    rest, mark, query = rest.partition("?")
    url = Url(scheme, query=query if mark else None, fragment=fragment)
    if rest.startswith("/"):
        return _parse_hierarchy(url, rest, is_request=is_request)
    if scheme:
        return Url(scheme, opaque=rest, query=url.query, fragment=fragment)
    if is_request and rest != "*":
        return None
    return None if ":" in rest.partition("/")[0] else _with_path(url, None, rest)


def _parse_hierarchy(url: Url, rest: str, *, is_request: bool) -> Url | None:
    authority = None
    # Without a scheme, three slashes begin a path.
    if rest.startswith("//") and (url.scheme or not (is_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        if not _is_authority(authority):
            return None
        rest = slash + path
    return _with_path(url, authority, rest)


def _with_path(url: Url, authority: str | None, path: str) -> Url | None:
    if _BAD_ESCAPE.search(path):
        return None
    return Url(url.scheme, "", authority, path, url.query, url.fragment)


def _is_authority(authority: str) -> bool:
    user_info, _, host = authority.rpartition("@")
    if not _USER_INFO.fullmatch(user_info) or _BAD_ESCAPE.search(user_info):
        return False
    if "[" in host:
        return _is_literal(host)
    name, colon, port = host.partition(":")
    return bool(_HOST_NAME.fullmatch(name) and _PORT.fullmatch(colon + port))


def _is_literal(host: str) -> bool:
    literal, closing, port = host[1:].rpartition("]")
    address, mark, zone = literal.partition("%25")
    if host.rindex("[") or not closing or not _PORT.fullmatch(port) or (mark and not zone):
        return False
    from ipaddress import AddressValueError, IPv6Address

    try:
        IPv6Address(address)
    except AddressValueError:
        return False
    return "%" not in address and not _BAD_ESCAPE.search(zone)


def _respell(text: str, valid: re.Pattern[str], safe: str) -> str:
    """Go keeps a spelling that could be its own, and otherwise spells the decoded text anew."""
    return text if valid.fullmatch(text) else _spell(text, safe)


def _spell(text: str, safe: str) -> str:
    return encode_percent(decode_percent(text), safe)
