"""Which proxy to use for a URL, from the environment, by the rules of Go's programs and so of the tools around us."""

import os

from keyferry._values import Value
from keyferry.errors import HttpError
from keyferry.sdk.forms import decode_percent

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Origin", "choose_proxy", "split_url"]

_PORTS = {"http": 80, "https": 443}


class Origin(Value):
    """A URL in the parts a connection needs; *target* is path and query, *user_info* what stands before ``@``."""

    scheme: str
    host: str
    port: int
    target: str = "/"
    user_info: str = ""

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them: brackets around IPv6, no port if it is the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    def __str__(self) -> str:
        # Safe to print: no user info, no query.
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"


def split_url(url: str) -> Origin:
    """The parts of an http or https URL; raises HttpError for anything else, quoting only what is no secret."""
    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower()
    # Not quoted: a URL may hold a password, and one that cannot be parsed cannot be cleaned.
    if not mark or scheme not in _PORTS or any(char <= " " or char == "\x7f" for char in url):
        raise HttpError("a configured URL", "is not an http:// or https:// URL")
    rest = rest.partition("#")[0]
    cut = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    authority, target = rest[:cut], rest[cut:]
    user_info, _, place = authority.rpartition("@")
    host, port = _split_host(place)
    shown = f"{scheme}://{place}"
    if not host:
        raise HttpError(shown, "has no host")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):  # noqa: PLR2004
        raise HttpError(shown, "has a port that is not in 1-65535")
    target = target if target.startswith("/") else f"/{target}"
    return Origin(scheme, host, int(port) if port else _PORTS[scheme], target, user_info)


def _split_host(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = place.partition(":")
    return host, port


def choose_proxy(origin: Origin, environ: "Mapping[str, str] | None" = None) -> Origin | None:
    """The proxy for *origin*, or None; loopback never goes through one."""
    environ = os.environ if environ is None else environ
    text = _setting(environ, f"{origin.scheme}_proxy")
    # Set by a web server from a request's "Proxy" header, for programs that run as its CGI.
    if not text or (
        origin.scheme == "http" and "REQUEST_METHOD" in environ and not environ.get("http_proxy")
    ):
        return None
    if not _uses_proxy(origin, _setting(environ, "no_proxy")):
        return None
    return split_url(text if "://" in text else f"http://{text}")


def authorization(proxy: Origin) -> list[tuple[str, str]]:
    """The header for the user and password in a proxy's URL."""
    if not proxy.user_info:
        return []
    from binascii import b2a_base64

    name, _, password = proxy.user_info.partition(":")
    pair = f"{decode_percent(name)}:{decode_percent(password)}".encode("utf-8", "surrogateescape")
    return [("Proxy-Authorization", f"Basic {b2a_base64(pair, newline=False).decode()}")]


def _setting(environ: "Mapping[str, str]", name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _uses_proxy(origin: Origin, exceptions: str) -> bool:
    host = origin.host.lower().rstrip(".")
    if host == "localhost" or _is_in(host, "127.0.0.0/8") or host == "::1":
        return False
    return not any(_covers(entry.strip().lower(), host, origin.port) for entry in exceptions.split(","))


def _covers(entry: str, host: str, port: int) -> bool:
    """Tell whether one entry of NO_PROXY names the host: an address, a network, a name with all below it, or ``*``."""
    if not entry or entry == "*":
        return entry == "*"
    if "/" in entry:
        return _is_in(host, entry)
    name, entry_port = _split_host(entry) if entry.count(":") <= 1 or entry.startswith("[") else (entry, "")
    if entry_port and entry_port != str(port):
        return False
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")


def _is_in(host: str, network: str) -> bool:
    if not (host[:1].isdigit() or ":" in host):
        return False
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
