"""The proxy for a URL from the environment, by the rules of Go, which Kubernetes' tools follow."""

from __future__ import annotations

import os
from binascii import b2a_base64
from collections.abc import Mapping

from keyferry._core.values import Value, field
from keyferry._net.errors import UrlError
from keyferry._net.forms import decode_percent, encode_percent
from keyferry._net.url import DEFAULT_PORTS, parse_url, split_host_port

_LOOPBACK = ("127.0.0.0/8", "::1/128")
_OTHER_KIND = "only http:// and https:// proxies are supported; other kinds, such as socks5://, are not"
_SPECIAL_CHARACTERS = "write special characters in a user name or password as %XX, such as %2F for a slash"


class Origin(Value):
    """The parts of a URL that a connection needs; *target* is path and query, *user_info* the part before ``@``."""

    scheme: str
    host: str
    port: int
    target: str = field(default="/", repr=False)  # a query may hold a token
    user_info: str = field(default="", repr=False)

    @property
    def authority(self) -> str:
        """Host and port for the Host header: IPv6 addresses in brackets, the default port omitted."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"

    def __str__(self) -> str:
        # Safe to print: no user info, no query.
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"


def parse_origin(url: str) -> Origin:
    """Return the parts of an http or https URL; raise UrlError, which quotes no secret, for any other text."""
    parsed = parse_url(url)
    # Not quoted: a URL may contain a password, which cannot be removed from a text that does not parse.
    if parsed is None or parsed.scheme not in DEFAULT_PORTS or parsed.authority is None or " " in url:
        raise UrlError("is not an http:// or https:// URL", subject="a configured URL")
    if not _split_host(parsed.host)[0] or not parsed.host.isascii():
        raise UrlError("has no host, or one that is not written in ASCII", subject="a configured URL")
    query = "" if parsed.query is None else f"?{parsed.query}"
    return make_origin(parsed.scheme, parsed.host, _escape((parsed.path or "/") + query), parsed.user_info)


def make_origin(scheme: str, place: str, target: str = "/", user_info: str = "") -> Origin:
    """Return the server at *place*, a host with or without a port; raise UrlError for an invalid port."""
    host, port = _split_host(place)
    if port and not _is_port(port):
        raise UrlError("has a port that is not in 1-65535", subject=f"{scheme}://{host}")
    return Origin(
        scheme=scheme,
        host=host,
        port=int(port) if port else DEFAULT_PORTS.get(scheme, 0),
        target=target,
        user_info=user_info,
    )


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def _escape(target: str) -> str:
    return target if target.isascii() else "".join([c if c.isascii() else encode_percent(c) for c in target])


def _split_host(place: str) -> tuple[str, str]:
    host, port = split_host_port(place)
    return (host[1:-1] if host.startswith("[") else host), port


def choose_proxy(origin: Origin, environ: Mapping[str, str] | None = None) -> Origin | None:
    """Return the environment's proxy for *origin*, or None; raise UrlError for an invalid proxy."""
    name, text = find_proxy(origin, environ)
    return parse_proxy(text, name) if text else None


def find_proxy(origin: Origin, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the variable that sets the proxy for *origin*, and the proxy's URL as text, empty for none.

    Loopback addresses never use a proxy.
    """
    environ = os.environ if environ is None else environ
    name, text = _proxy_setting(environ, origin.scheme)
    if not text or not _uses_proxy(origin, _setting(environ, "no_proxy")[1]):
        return name, ""
    return name, text if "://" in text else f"http://{text}"


def parse_proxy(text: str, setting: str) -> Origin:
    """Return the proxy in *setting*; raise UrlError, which does not quote the text, for an invalid one."""
    proxy: Origin | None = None
    try:
        proxy = parse_origin(text)
    except UrlError:
        pass
    # An "@" after the host is part of a password with a slash or the like; the parsed host is wrong then.
    if proxy is None or "@" in proxy.target:
        is_other = "://" in text and text.partition("://")[0].lower() not in DEFAULT_PORTS
        raise UrlError(
            "is not a URL of the form http://[USER:PASSWORD@]HOST[:PORT]",
            _OTHER_KIND if is_other else _SPECIAL_CHARACTERS,
            f"the proxy in {setting}",
        )
    return Origin(scheme=proxy.scheme, host=proxy.host, port=proxy.port, target="", user_info=proxy.user_info)


def _proxy_setting(environ: Mapping[str, str], scheme: str) -> tuple[str, str]:
    """Return the variable and its value; in a CGI program HTTP_PROXY is a header of the request it serves."""
    if scheme == "http" and "REQUEST_METHOD" in environ:
        return "http_proxy", environ.get("http_proxy", "")
    return _setting(environ, f"{scheme}_proxy")


def authorization(proxy: Origin) -> list[tuple[str, str]]:
    """Return the header for the user and password in a proxy's URL, if it has them."""
    if not proxy.user_info:
        return []
    name, _, password = proxy.user_info.partition(":")
    pair = f"{decode_percent(name)}:{decode_percent(password)}".encode("utf-8", "surrogateescape")
    return [("Proxy-Authorization", f"Basic {b2a_base64(pair, newline=False).decode()}")]


def _setting(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    upper = environ.get(name.upper())
    return (name.upper(), upper) if upper else (name, environ.get(name, ""))


def _uses_proxy(origin: Origin, exceptions: str) -> bool:
    host = origin.host.lower().rstrip(".")
    if host == "localhost" or any(_is_in(host, network) for network in _LOOPBACK):
        return False
    return not any(_covers(entry.strip().lower(), host, origin.port) for entry in exceptions.split(","))


def _covers(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY matches: an address, a network, a name or its subdomains, or ``*``."""
    if not entry or entry == "*":
        return entry == "*"
    if "/" in entry:
        return _is_in(host, entry)
    name, entry_port = _split_host(entry) if entry.count(":") <= 1 or entry.startswith("[") else (entry, "")
    if not name or (entry_port and entry_port != str(port)):
        return False
    if name.startswith("*."):
        name = name[1:]
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}") or _is_in(host, name)


def _is_in(host: str, network: str) -> bool:
    if not (host[:1].isdigit() or ":" in host):
        return False
    from ipaddress import IPv6Address, ip_address, ip_network

    try:
        address = ip_address(host)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address in ip_network(network, strict=False)
    except ValueError:
        return False
