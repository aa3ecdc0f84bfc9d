"""A cluster session for httpx: an ``Auth`` for clients of one's own, and ready clients, sync and async."""

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
# These are the session's to say.
_RESERVED = frozenset(("auth", "base_url", "cert", "proxy", "transport", "verify"))
# httpx tells these to the transport that it makes itself; ours has to be told.
_POOL_OPTIONS = ("http1", "http2", "limits")


class ClusterAuth(httpx.Auth):
    """Gives each request to the session's server its credential; other servers get nothing.

    After a 401 the credential is renewed and the request, if its body can be sent again, retried once.
    A request with an Authorization header of its own is left alone.
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
        # Somebody else's 401, after a redirect, says nothing about this credential.
        return response.status_code == _UNAUTHORIZED and server_key(response.request.url) == self._server_key

    def _may_retry(self, request: httpx.Request) -> bool:
        # Any other stream is used up: a file would go out empty the second time, an iterator raise.
        return self._session.retries and isinstance(request.stream, httpx.ByteStream)


def make_client(session: ClusterAccess, **options: Any) -> httpx.Client:
    """A client for the session's server; *options* are those of ``httpx.Client`` but for what the session says.

    The environment's proxies are used only with ``trust_env=True``, and a proxy-url goes before them.
    """
    settings = _settle(session, options)
    pool = _pool_options(session, settings)
    return httpx.Client(transport=ClusterTransport(session, pool), **settings)


def make_async_client(session: ClusterAccess, **options: Any) -> httpx.AsyncClient:
    """As ``make_client``, for asyncio; nothing is run before the first request."""
    settings = _settle(session, options)
    pool = _pool_options(session, settings)
    return httpx.AsyncClient(transport=AsyncClusterTransport(session, pool), **settings)


def _with_grant(headers: httpx.Headers, grant: Grant) -> httpx.Headers:
    # As in client-go a request that says itself whom to impersonate is not told another.
    is_own = "Impersonate-User" in headers
    added = [
        # Bytes as they came: a token file may hold what is no text.
        (name.encode(), value.encode("utf-8", "surrogateescape"))
        for name, value in grant.headers
        if name == "Authorization" or not is_own
    ]
    return httpx.Headers([*headers.raw, *added])


def _settle(session: ClusterAccess, options: dict[str, Any]) -> dict[str, Any]:
    """The options of the client: the user's, and the session's word on the rest."""
    reserved = _RESERVED.intersection(options)
    if reserved:
        raise TypeError(f"the cluster's session decides on {', '.join(sorted(reserved))}")
    headers = httpx.Headers(options.get("headers"))
    if session.config.disable_compression:
        headers.setdefault("Accept-Encoding", "identity")
    own = {"auth": ClusterAuth(session), "base_url": base_url(session), "headers": headers}
    return {"trust_env": False, **options, **own}


def _pool_options(session: ClusterAccess, settings: dict[str, Any]) -> dict[str, Any]:
    """The options of each pool of connections."""
    options = {name: settings[name] for name in _POOL_OPTIONS if name in settings}
    proxy = session.config.proxy_url
    if not proxy and settings["trust_env"]:
        server = base_url(session)
        _, proxy = find_proxy(make_origin(server.scheme, server.netloc.decode("ascii")))
    return {**options, "trust_env": False, "proxy": _make_proxy(session, proxy) if proxy else None}


def _make_proxy(session: ClusterAccess, url: str) -> httpx.Proxy:
    """A proxy that httpx can use; its URL, which may hold a password, is in no error."""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme.startswith("socks5") and find_spec("socksio") is None:
        raise ClusterAuthError(session.server, "the proxy is a SOCKS proxy, which needs httpx[socks]")
    try:
        return httpx.Proxy(url, ssl_context=default_context() if scheme == "https" else None)
    except (ValueError, httpx.InvalidURL):
        pass
    message = "the proxy is not a URL with http, https or socks5"
    raise ClusterAuthError(session.server, message)
