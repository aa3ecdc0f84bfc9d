"""What the adapters for httpx and for httpx2 share: the flow of a request, and the settings of a client.

httpx2 is the successor of httpx and has the same names. Neither is imported here: a program may have only one of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar

from keyferry._core.values import Value
from keyferry._net.proxy import find_proxy, make_origin
from keyferry._net.trust import default_context
from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.clusters.adapters.httpx_transport import (
    AsyncPooledTransport,
    AsyncWatchedStream,
    PooledTransport,
    WatchedStream,
    base_url,
    server_key,
)
from keyferry.errors import ClusterAuthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import httpx

_UNAUTHORIZED = 401
# The adapter sets these options.
_RESERVED = frozenset(("auth", "base_url", "cert", "proxy", "transport", "verify"))
# httpx passes these only to a transport that it makes itself.
_POOL_OPTIONS = ("http1", "http2", "limits")


class AuthFlow:
    """Adds the credential to each request to the session's server, and to no other.

    After a 401 the credential is renewed, and the request is retried once if its body can be sent again.
    Requests that have an Authorization header are not changed. ``library`` is httpx or httpx2.
    """

    library: ClassVar[ModuleType]

    def __init__(self, session: ClusterAccess) -> None:
        self._session = session
        self._server_key = server_key(base_url(session, self.library))

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
        return self._session.retries and isinstance(request.stream, self.library.ByteStream)


class Adapter(Value):
    """The adapter for a library: httpx or httpx2, the auth of its clients, and their transports."""

    library: ModuleType
    auth: type[AuthFlow]
    transport: type[PooledTransport]
    async_transport: type[AsyncPooledTransport]

    @classmethod
    def make(cls, library: ModuleType, auth: type[AuthFlow]) -> Adapter:
        """Return the adapter, with classes made from those that the library expects."""
        stream = type("Stream", (WatchedStream, library.SyncByteStream), {})
        async_stream = type("AsyncStream", (AsyncWatchedStream, library.AsyncByteStream), {})
        fields = {"library": library, "stream": stream}
        async_fields = {"library": library, "stream": async_stream}
        return cls(
            library=library,
            auth=auth,
            transport=type("ClusterTransport", (PooledTransport, library.BaseTransport), fields),
            async_transport=type(
                "AsyncClusterTransport", (AsyncPooledTransport, library.AsyncBaseTransport), async_fields
            ),
        )

    def make_client(self, session: ClusterAccess, options: dict[str, Any]) -> Any:
        """Return a client of the library for the session's server."""
        settings = self._settle(session, options)
        pool = self._pool_options(session, settings)
        return self.library.Client(transport=self.transport(session, pool), **settings)

    def make_async_client(self, session: ClusterAccess, options: dict[str, Any]) -> Any:
        """Return the same as ``make_client`` for asyncio."""
        settings = self._settle(session, options)
        pool = self._pool_options(session, settings)
        return self.library.AsyncClient(transport=self.async_transport(session, pool), **settings)

    def _settle(self, session: ClusterAccess, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the client: the caller's, and those that the session sets."""
        reserved = _RESERVED.intersection(options)
        if reserved:
            raise TypeError(f"the cluster's session sets these options itself: {', '.join(sorted(reserved))}")
        headers = self.library.Headers(options.get("headers"))
        if session.config.disable_compression:
            headers.setdefault("Accept-Encoding", "identity")
        url = base_url(session, self.library)
        own = {"auth": self.auth(session), "base_url": url, "headers": headers}
        return {"trust_env": False, **options, **own}

    def _pool_options(self, session: ClusterAccess, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the options of each connection pool."""
        options = {name: settings[name] for name in _POOL_OPTIONS if name in settings}
        proxy = session.config.proxy_url
        if not proxy and settings["trust_env"]:
            server = settings["base_url"]
            _, proxy = find_proxy(make_origin(server.scheme, server.netloc.decode("ascii")))
        return {**options, "trust_env": False, "proxy": self._make_proxy(session, proxy) if proxy else None}

    def _make_proxy(self, session: ClusterAccess, url: str) -> Any:
        """Return a proxy for the library; errors do not contain its URL, which may contain a password."""
        library = self.library
        scheme = url.partition("://")[0].lower() if "://" in url else ""
        if scheme.startswith("socks5"):
            if find_spec("socksio") is None:
                message = f"the proxy is a SOCKS proxy, which requires {library.__name__}[socks]"
                raise ClusterAuthError(session.server, message)
        try:
            return library.Proxy(url, ssl_context=default_context() if scheme == "https" else None)
        except (ValueError, library.InvalidURL):
            pass
        message = "the proxy is not an http, https or socks5 URL"
        raise ClusterAuthError(session.server, message)


def _with_grant(headers: httpx.Headers, grant: Grant) -> httpx.Headers:
    # As in client-go, impersonation headers of the request take precedence over those of the grant.
    is_own = "Impersonate-User" in headers
    added = [
        # Unchanged bytes, since a token file may contain invalid UTF-8.
        (name.encode(), value.encode("utf-8", "surrogateescape"))
        for name, value in grant.headers
        if name == "Authorization" or not is_own
    ]
    return type(headers)([*headers.raw, *added])
