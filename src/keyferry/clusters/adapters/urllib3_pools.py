"""Shared code of the adapters for requests and the official client, which both use urllib3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ssl import SSLContext
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

from urllib3 import BaseHTTPResponse, HTTPHeaderDict, PoolManager

from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.errors import ClusterAuthError

__all__ = ["ConnectionKeeper", "check_proxy", "close_pools", "discard", "with_grant"]

# A refused response whose Content-Length has fewer digits is read, so that its connection can be reused.
_SHORT_LENGTH: Final = 5
_PROXIES = frozenset(("http", "https", "socks5", "socks5h"))


class ConnectionKeeper:
    """Closes connections that were made with an old client certificate.

    Idle connections are closed when the certificate changes; those in use are closed when their response ends.
    """

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._context: SSLContext | None = None
        self._identity: tuple[int, bool] | None = None
        self._lock = Lock()

    @property
    def context(self) -> SSLContext:
        """The TLS context of every connection, made at first use."""
        with self._lock:
            if self._context is None:
                self._context = self._cluster.ssl_context(ahead=False)
            return self._context

    def settle(self, managers: Iterable[PoolManager]) -> None:
        """Close connections made with another certificate. Call this before each request."""
        identity = self._cluster.identity
        with self._lock:
            if identity == self._identity:
                return
            self._identity = identity
        for manager in managers:
            close_pools(manager)


def close_pools(manager: PoolManager) -> None:
    """Close idle connections now, and connections in use when they are returned to the pool.

    ``PoolManager.clear`` alone keeps idle connections open while another connection of their pool is in use.
    """
    for key in manager.pools.keys():  # noqa: SIM118 - the container itself is not iterable, for thread safety
        pool = manager.pools.get(key)
        if pool is not None:
            pool.close()
    manager.clear()


def with_grant(headers: Mapping[str, Any], grant: Grant) -> HTTPHeaderDict:
    """Return the headers of a request with those of a grant, whose Authorization replaces the request's."""
    result = HTTPHeaderDict()
    for name, value in headers.items():
        if name.lower() != "authorization":
            result.add(name, value)
    # As in client-go, impersonation headers of the request take precedence over those of the grant.
    is_own = "Impersonate-User" in result
    for name, value in grant.headers:
        if name == "Authorization" or not is_own:
            result.add(name, _wire(value))
    return result


def _wire(value: str) -> Any:
    """Return a header value as bytes if it is not ASCII: http.client would encode it as Latin-1."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape")


def discard(response: BaseHTTPResponse) -> None:
    """Discard a refused response; its connection is reused if the body is short."""
    length = response.headers.get("Content-Length", "")
    if len(length) < _SHORT_LENGTH and length.isdecimal():
        response.drain_conn()
        response.release_conn()
    response.close()


def check_proxy(cluster: ClusterAccess) -> str:
    """Return the kubeconfig's proxy, empty if there is none.

    Raises ClusterAuthError without the URL, which may contain a password.
    """
    proxy = cluster.config.proxy_url
    if not proxy:
        return ""
    try:
        url = urlsplit(proxy)
    except ValueError:
        url = urlsplit("")
    if url.scheme not in _PROXIES or not url.hostname:
        raise ClusterAuthError(cluster.server, "the proxy is not an http, https or socks5 URL")
    return proxy
