"""What the adapters for requests and the official client share, since both stand on urllib3."""

from collections.abc import Iterable, Mapping
from ssl import SSLContext
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

from urllib3 import BaseHTTPResponse, HTTPHeaderDict, PoolManager

from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.errors import ClusterAuthError

__all__ = ["ConnectionKeeper", "check_proxy", "close_pools", "discard", "with_grant"]

# A refused answer of fewer digits of bytes is read, so that its connection serves again.
_SHORT_LENGTH: Final = 5
_PROXIES = frozenset(("http", "https", "socks5", "socks5h"))


class ConnectionKeeper:
    """Sees to it that no connection outlives the client certificate it was made with.

    What is idle is closed when the certificate changes, what is in use goes on and is closed at its end.
    """

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._context: SSLContext | None = None
        self._identity: tuple[int, bool] | None = None
        self._lock = Lock()

    @property
    def context(self) -> SSLContext:
        """The TLS settings of every connection; made when first asked for."""
        with self._lock:
            if self._context is None:
                self._context = self._cluster.ssl_context(ahead=False)
            return self._context

    def settle(self, managers: Iterable[PoolManager]) -> None:
        """Close what was made with another certificate; to be called before each request."""
        identity = self._cluster.identity
        with self._lock:
            if identity == self._identity:
                return
            self._identity = identity
        for manager in managers:
            close_pools(manager)


def close_pools(manager: PoolManager) -> None:
    """Close idle connections, and those in use once they are given back.

    ``PoolManager.clear`` alone would leave idle ones open for as long as another of their pool is in use.
    """
    for key in manager.pools.keys():  # noqa: SIM118 - it cannot be iterated, to be safe with threads
        pool = manager.pools.get(key)
        if pool is not None:
            pool.close()
    manager.clear()


def with_grant(headers: Mapping[str, Any], grant: Grant) -> HTTPHeaderDict:
    """The headers of a request with those of a grant, which alone says who asks."""
    result = HTTPHeaderDict()
    for name, value in headers.items():
        if name.lower() != "authorization":
            result.add(name, value)
    # As in client-go a request that says itself whom to impersonate is not told another.
    is_own = "Impersonate-User" in result
    for name, value in grant.headers:
        if name == "Authorization" or not is_own:
            result.add(name, _wire(value))
    return result


def _wire(value: str) -> Any:
    """A header's value; http.client takes text for Latin-1, and a token file may hold what is no text."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape")


def discard(response: BaseHTTPResponse) -> None:
    """Let go of a refused answer: its connection serves again if the rest of the answer is short."""
    length = response.headers.get("Content-Length", "")
    if len(length) < _SHORT_LENGTH and length.isdecimal():
        response.drain_conn()
        response.release_conn()
    response.close()


def check_proxy(cluster: ClusterAccess) -> str:
    """The proxy of the kubeconfig, empty if there is none; its URL, which may hold a password, is in no error."""
    proxy = cluster.config.proxy_url
    if not proxy:
        return ""
    try:
        url = urlsplit(proxy)
    except ValueError:
        url = urlsplit("")
    if url.scheme not in _PROXIES or not url.hostname:
        raise ClusterAuthError(cluster.server, "the proxy is not a URL with http, https or socks5")
    return proxy
