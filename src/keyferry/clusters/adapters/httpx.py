"""The adapter for httpx: an ``Auth`` for any client, and sync and async clients for the cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from importlib.util import find_spec
from typing import Any

from keyferry._core.extras import missing_extra

try:
    import httpx
except ImportError as missing:
    raise missing_extra("httpx", missing) from None

from keyferry._net.proxy import find_proxy, make_origin
from keyferry._net.trust import default_context
from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.clusters.adapters.httpx_transport import (
    AsyncClusterTransport,
    ClusterTransport,
    base_url,
    server_key,
)
from keyferry.errors import ClusterAuthError

__all__ = ["ClusterAuth", "make_async_client", "make_client"]

_UNAUTHORIZED = 401
# The adapter sets these options.
_RESERVED = frozenset(("auth", "base_url", "cert", "proxy", "transport", "verify"))
# httpx passes these only to a transport that it makes itself.
_POOL_OPTIONS = ("http1", "http2", "limits")


class ClusterAuth(httpx.Auth):
    """An httpx ``Auth`` that adds the credential to each request to the session's server, and to no other.

    After a 401 the credential is renewed, and the request is retried once if its body can be sent again.
    Requests that have an Authorization header are not changed.
    """

    def __init__(self, session: ClusterAccess) -> None:
        self._session = session
        self._server_key = server_key(base_url(session))

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Authenticate a request of ``httpx.Client``."""
        if self._is_left_alone(request):
            yield request
            return
        headers, grant = request.headers, self._session.grant()
        request.headers = _with_grant(headers, grant)
        response = yield request
        if not self._is_refused(response):
            return
        renewed = self._session.renew(grant)
        if renewed is not None and self._may_retry(request):
            request.headers = _with_grant(headers, renewed)
            yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Authenticate a request of ``httpx.AsyncClient``."""
        if self._is_left_alone(request):
            yield request
            return
        headers, grant = request.headers, await self._session.grant_async()
        request.headers = _with_grant(headers, grant)
        response = yield request
        if not self._is_refused(response):
            return
        renewed = await self._session.renew_async(grant)
        if renewed is not None and self._may_retry(request):
            request.headers = _with_grant(headers, renewed)
            yield request

    def _is_left_alone(self, request: httpx.Request) -> bool:
        return "Authorization" in request.headers or server_key(request.url) != self._server_key

    def _is_refused(self, response: httpx.Response) -> bool:
        # After a redirect, a 401 of another server does not concern this credential.
        return response.status_code == _UNAUTHORIZED and server_key(response.request.url) == self._server_key

    def _may_retry(self, request: httpx.Request) -> bool:
        # Any other stream is consumed: a file would be sent empty, and an iterator would raise.
        return self._session.retries and isinstance(request.stream, httpx.ByteStream)


def make_client(session: ClusterAccess, **options: Any) -> httpx.Client:
    """Return an ``httpx.Client`` for the session's server.

    *options* are those of ``httpx.Client``, except those that the session sets. Proxies of the environment are
    used only with ``trust_env=True``, and a proxy-url takes precedence over them.
    """
    settings = _settle(session, options)
    pool = _pool_options(session, settings)
    return httpx.Client(transport=ClusterTransport(session, pool), **settings)


def make_async_client(session: ClusterAccess, **options: Any) -> httpx.AsyncClient:
    """Return the same as ``make_client`` for asyncio. The plugin is not run before the first request."""
    settings = _settle(session, options)
    pool = _pool_options(session, settings)
    return httpx.AsyncClient(transport=AsyncClusterTransport(session, pool), **settings)


def _with_grant(headers: httpx.Headers, grant: Grant) -> httpx.Headers:
    # As in client-go, impersonation headers of the request take precedence over those of the grant.
    is_own = "Impersonate-User" in headers
    added = [
        # Unchanged bytes, since a token file may contain invalid UTF-8.
        (name.encode(), value.encode("utf-8", "surrogateescape"))
        for name, value in grant.headers
        if name == "Authorization" or not is_own
    ]
    return httpx.Headers([*headers.raw, *added])


def _settle(session: ClusterAccess, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the client: the caller's, and those that the session sets."""
    reserved = _RESERVED.intersection(options)
    if reserved:
        raise TypeError(f"the cluster's session sets these options itself: {', '.join(sorted(reserved))}")
    headers = httpx.Headers(options.get("headers"))
    if session.config.disable_compression:
        headers.setdefault("Accept-Encoding", "identity")
    own = {"auth": ClusterAuth(session), "base_url": base_url(session), "headers": headers}
    return {"trust_env": False, **options, **own}


def _pool_options(session: ClusterAccess, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the options of each connection pool."""
    options = {name: settings[name] for name in _POOL_OPTIONS if name in settings}
    proxy = session.config.proxy_url
    if not proxy and settings["trust_env"]:
        server = base_url(session)
        _, proxy = find_proxy(make_origin(server.scheme, server.netloc.decode("ascii")))
    return {**options, "trust_env": False, "proxy": _make_proxy(session, proxy) if proxy else None}


def _make_proxy(session: ClusterAccess, url: str) -> httpx.Proxy:
    """Return a proxy for httpx; errors do not contain its URL, which may contain a password."""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme.startswith("socks5"):
        if find_spec("socksio") is None:
            raise ClusterAuthError(session.server, "the proxy is a SOCKS proxy, which requires httpx[socks]")
    try:
        return httpx.Proxy(url, ssl_context=default_context() if scheme == "https" else None)
    except (ValueError, httpx.InvalidURL):
        pass
    message = "the proxy is not an http, https or socks5 URL"
    raise ClusterAuthError(session.server, message)
