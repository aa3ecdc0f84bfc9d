"""Which proxy to use for a URL, from the environment, by the rules of Go's programs and so of the tools around us."""

import os

from keyferry._core.values import Value, field
from keyferry._net.errors import UrlError
from keyferry._net.forms import decode_percent, encode_percent
from keyferry._net.url import parse_url, split_host_port

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Origin",
    "authorization",
    "choose_proxy",
    "find_proxy",
    "make_origin",
    "parse_proxy",
    "split_url",
]

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = ("127.0.0.0/8", "::1/128")
_OTHER_KIND = (
    "a proxy is reached by http:// or https://; another kind, such as socks5://, is not supported here"
)
_SPECIAL_CHARACTERS = "write what is special in a user name or password as %XX, such as %2F for a slash"


class Origin(Value):
    """A URL in the parts a connection needs; *target* is path and query, *user_info* what stands before ``@``."""

    scheme: str
    host: str
    port: int
    target: str = field(default="/", repr=False)  # a query may hold a token
    user_info: str = field(default="", repr=False)

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them: brackets around IPv6, no port if it is the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    def __str__(self) -> str:
        # Safe to print: no user info, no query.
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"


def split_url(url: str) -> Origin:
    """The parts of an http or https URL; raises UrlError for anything else, quoting only what is no secret."""
    parsed = parse_url(url)
    # Not quoted: a URL may hold a password, and one that cannot be parsed cannot be cleaned.
    if parsed is None or parsed.scheme not in _PORTS or parsed.authority is None or " " in url:
        raise UrlError("is not an http:// or https:// URL", subject="a configured URL")
    if not _split_host(parsed.host)[0] or not parsed.host.isascii():
        raise UrlError("has no host, or one that is not written in ASCII", subject="a configured URL")
    query = "" if parsed.query is None else f"?{parsed.query}"
    return make_origin(parsed.scheme, parsed.host, _escape((parsed.path or "/") + query), parsed.user_info)


def make_origin(scheme: str, place: str, target: str = "/", user_info: str = "") -> Origin:
    """The server at *place*, a host with or without a port; raises UrlError for a port that is none."""
    host, port = _split_host(place)
    if port and not _is_port(port):
        raise UrlError("has a port that is not in 1-65535", subject=f"{scheme}://{host}")
    return Origin(scheme, host, int(port) if port else _PORTS.get(scheme, 0), target, user_info)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def _escape(target: str) -> str:
    return target if target.isascii() else "".join([c if c.isascii() else encode_percent(c) for c in target])


def _split_host(place: str) -> tuple[str, str]:
    host, port = split_host_port(place)
    return (host[1:-1] if host.startswith("[") else host), port


def choose_proxy(origin: Origin, environ: "Mapping[str, str] | None" = None) -> Origin | None:
    """The environment's proxy for *origin*, or None; raises UrlError for one that is none."""
    name, text = find_proxy(origin, environ)
    return parse_proxy(text, name) if text else None


def find_proxy(origin: Origin, environ: "Mapping[str, str] | None" = None) -> tuple[str, str]:
    """The variable that names the proxy for *origin*, and the proxy's URL as text, empty for none.

    Loopback never goes through a proxy.
    """
    environ = os.environ if environ is None else environ
    name, text = _proxy_setting(environ, origin.scheme)
    if not text or not _uses_proxy(origin, _setting(environ, "no_proxy")[1]):
        return name, ""
    return name, text if "://" in text else f"http://{text}"


def parse_proxy(text: str, setting: str) -> Origin:
    """The proxy that *setting* names; raises UrlError, which quotes nothing of a text that may hold a password."""
    proxy: Origin | None = None
    try:
        proxy = split_url(text)
    except UrlError:
        pass
    # One with "@" after the host has a password with a slash or the like in it, and another host than was meant.
    if proxy is None or "@" in proxy.target:
        is_other = "://" in text and text.partition("://")[0].lower() not in _PORTS
        raise UrlError(
            "is not a URL of the form http://[USER:PASSWORD@]HOST[:PORT]",
            _OTHER_KIND if is_other else _SPECIAL_CHARACTERS,
            f"the proxy in {setting}",
        )
    return Origin(proxy.scheme, proxy.host, proxy.port, "", proxy.user_info)


def _proxy_setting(environ: "Mapping[str, str]", scheme: str) -> tuple[str, str]:
    """The variable, and its value. HTTP_PROXY of a CGI program is a header of the request it serves."""
    if scheme == "http" and "REQUEST_METHOD" in environ:
        return "http_proxy", environ.get("http_proxy", "")
    return _setting(environ, f"{scheme}_proxy")


def authorization(proxy: Origin) -> list[tuple[str, str]]:
    """The header for the user and password in a proxy's URL."""
    if not proxy.user_info:
        return []
    from binascii import b2a_base64

    name, _, password = proxy.user_info.partition(":")
    pair = f"{decode_percent(name)}:{decode_percent(password)}".encode("utf-8", "surrogateescape")
    return [("Proxy-Authorization", f"Basic {b2a_base64(pair, newline=False).decode()}")]


def _setting(environ: "Mapping[str, str]", name: str) -> tuple[str, str]:
    upper = environ.get(name.upper())
    return (name.upper(), upper) if upper else (name, environ.get(name, ""))


def _uses_proxy(origin: Origin, exceptions: str) -> bool:
    host = origin.host.lower().rstrip(".")
    if host == "localhost" or any(_is_in(host, network) for network in _LOOPBACK):
        return False
    return not any(_covers(entry.strip().lower(), host, origin.port) for entry in exceptions.split(","))


def _covers(entry: str, host: str, port: int) -> bool:
    """Tell whether one entry of NO_PROXY names the host: an address, a network, a name with all below it, or ``*``."""
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
