"""What every request to the page has to be, and what every reply says: for browsers that were lured here."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.values import Value

__all__ = ["KEPT_HEADERS", "SECURITY_HEADERS", "PageRefusal", "cookie_of", "own_hosts", "refuse_headers"]

KEPT_HEADERS = frozenset((b"host", b"origin", b"cookie", b"sec-fetch-site"))
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    f"content-security-policy: {_POLICY}\r\n"
    "cache-control: no-store\r\n"
    "x-content-type-options: nosniff\r\n"
    "x-frame-options: DENY\r\n"
    "referrer-policy: no-referrer\r\n"
    "cross-origin-opener-policy: same-origin\r\n"
    "cross-origin-resource-policy: same-origin\r\n"
).encode()
_HTTP_PORT = 80


class PageRefusal(Value):
    """Why a request is refused, and the status that says so."""

    status: int
    text: str


def own_hosts(address: str, port: int) -> frozenset[str]:
    """Return what a browser may call this server: by its address or as localhost, with its port."""
    names = (f"[{address}]" if ":" in address else address, "localhost")
    hosts = {f"{name}:{port}" for name in names}
    return frozenset(hosts | set(names) if port == _HTTP_PORT else hosts)


def refuse_headers(headers: Mapping[bytes, bytes], hosts: frozenset[str]) -> PageRefusal | None:
    """Return why a request is not from a page of this server or from the browser's address bar; None if it is.

    A name that leads here by a change of its address (DNS rebinding) has an origin that equals its host, so that only
    a list of hosts keeps it out. A server on another port of this machine is the same site, and another origin.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if host not in hosts:
        text = f"this server is {' or '.join(sorted(hosts))}; if a port is forwarded, its number has to stay the same"
        return PageRefusal(status=421, text=text)
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
        return PageRefusal(status=403, text="the request comes from another page")
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return PageRefusal(
            status=403,
            text="the request comes from another page; type or paste the link into the address bar",
        )
    return None


def cookie_of(headers: Mapping[bytes, bytes], name: str) -> str:
    """Return the value of a cookie; empty if it was not sent."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value
    return ""
