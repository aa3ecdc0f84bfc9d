"""Connections for httpx and httpx2 that use the current client certificate of a session.

When the certificate changes, new requests use a new pool. The old pool closes its idle connections at once and
the others when their response ends: a watch continues, and no new request uses a connection made with the old
certificate.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from threading import Lock
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from keyferry.clusters.access import ClusterAccess
from keyferry.errors import ClusterAuthError

TYPE_CHECKING = False
if TYPE_CHECKING:
    # httpx2, its successor, has the same names.
    import httpx

_ServerKey = tuple[str, str, int | None]
Transport = TypeVar("Transport", "httpx.HTTPTransport", "httpx.AsyncHTTPTransport")


def base_url(session: ClusterAccess, library: ModuleType) -> httpx.URL:
    """Return the cluster's URL; without a scheme it is an http URL, as in client-go."""
    server = session.server
    try:
        url: httpx.URL = library.URL(server if "://" in server else f"http://{server}")
    except library.InvalidURL:
        pass
    else:
        return url
    raise ClusterAuthError(server, f"the server is not a URL that {library.__name__} can use")


def server_key(url: httpx.URL) -> _ServerKey:
    """Return scheme, host and port, which a credential is bound to."""
    return url.scheme, url.host, url.port


class _Pool(Generic[Transport]):
    """The connections of one client certificate, and the number of requests that use them."""

    __slots__ = ("identity", "is_retired", "running", "starting", "transport")

    def __init__(self, transport: Transport, identity: tuple[int, bool]) -> None:
        self.transport: Transport = transport
        self.identity = identity
        self.is_retired = False
        self.starting = 0
        self.running = 0

    @property
    def is_done(self) -> bool:
        """Whether no request uses the pool, and none will."""
        return self.is_retired and not self.starting and not self.running

    def idle(self) -> list[Any]:
        """Return the idle connections of a retired pool, to be closed now.

        While a request starts there are none, since it may use one of them. httpx has no public attribute for
        its connections; if the private one is missing, they are closed after the last request instead.
        """
        if not self.is_retired or self.starting:
            return []
        connections = getattr(getattr(self.transport, "_pool", None), "connections", ())
        return [connection for connection in connections if connection.is_idle()]


class _Pools(Generic[Transport]):
    """The current pool, and retired ones that are still in use. It can be shared between threads."""

    def __init__(
        self,
        session: ClusterAccess,
        server: httpx.URL,
        make: Callable[..., Transport],
        options: dict[str, Any],
    ) -> None:
        self._session = session
        self._make: Callable[..., Transport] = make
        self._options = options
        self._server_key = server_key(server)
        self._pools: list[_Pool[Transport]] = []
        self._lock = Lock()

    def enter(self, request: httpx.Request) -> _Pool[Transport]:
        """Return the pool for a new request, and retire the previous pool if the certificate has changed."""
        if server_key(request.url) != self._server_key:
            # For example a redirect: other servers must not get the client certificate or impersonation headers.
            message = f"this client connects only to its cluster, not to {request.url.host!r}"
            raise ClusterAuthError(self._session.server, message)
        with self._lock:
            pool = self._current()
            pool.starting += 1
            return pool

    def started(self, pool: _Pool[Transport]) -> None:
        """Record that a request has its response, whose body is still to be read."""
        with self._lock:
            pool.starting -= 1
            pool.running += 1

    def failed(self, pool: _Pool[Transport]) -> None:
        """Record that a request ended without a response."""
        with self._lock:
            pool.starting -= 1

    def ended(self, pool: _Pool[Transport]) -> None:
        """Record that a response was closed."""
        with self._lock:
            pool.running -= 1

    def sweep(self) -> tuple[list[Transport], list[Any]]:
        """Return what to close now: retired pools without requests, and idle connections of other retired pools."""
        if len(self._pools) < 2:  # the current one alone
            return [], []
        with self._lock:
            done = [pool for pool in self._pools if pool.is_done]
            self._pools = [pool for pool in self._pools if not pool.is_done]
            return [pool.transport for pool in done], [idle for pool in self._pools for idle in pool.idle()]

    def clear(self) -> list[Transport]:
        """Remove all pools and return their transports, to be closed."""
        with self._lock:
            pools, self._pools = self._pools, []
            return [pool.transport for pool in pools]

    def _current(self) -> _Pool[Transport]:
        identity = self._session.identity
        if self._pools and self._pools[-1].identity == identity:
            return self._pools[-1]
        if "verify" not in self._options:
            self._options["verify"] = self._session.ssl_context(ahead=False)
        fresh = _Pool(self._make(**self._options), identity)
        for pool in self._pools:
            pool.is_retired = True
        self._pools.append(fresh)
        return fresh


class PooledTransport:
    """A transport whose connections use the current client certificate; ``library`` is httpx or httpx2."""

    library: ClassVar[ModuleType]
    stream: ClassVar[Callable[..., Any]]

    def __init__(self, session: ClusterAccess, options: dict[str, Any]) -> None:
        library = self.library
        self._pools: _Pools[httpx.HTTPTransport] = _Pools(
            session, base_url(session, library), library.HTTPTransport, options
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the body of the response is read later."""
        pool = self._pools.enter(request)
        self._sweep()
        try:
            response = pool.transport.handle_request(request)
        except BaseException:
            self._pools.failed(pool)
            self._sweep()
            raise
        self._pools.started(pool)
        response.stream = self.stream(response.stream, self, pool)
        return response

    def end(self, pool: _Pool[httpx.HTTPTransport]) -> None:
        """Record that a response was closed, and close connections that are no longer needed."""
        self._pools.ended(pool)
        self._sweep()

    def close(self) -> None:
        """Close every connection."""
        for transport in self._pools.clear():
            transport.close()

    def _sweep(self) -> None:
        transports, connections = self._pools.sweep()
        for closing in (*transports, *connections):
            closing.close()


class AsyncPooledTransport:
    """The same as ``PooledTransport`` for asyncio."""

    library: ClassVar[ModuleType]
    stream: ClassVar[Callable[..., Any]]

    def __init__(self, session: ClusterAccess, options: dict[str, Any]) -> None:
        library = self.library
        self._pools: _Pools[httpx.AsyncHTTPTransport] = _Pools(
            session, base_url(session, library), library.AsyncHTTPTransport, options
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the body of the response is read later."""
        pool = self._pools.enter(request)
        try:
            await self._sweep()
            response = await pool.transport.handle_async_request(request)
        except BaseException:
            self._pools.failed(pool)
            await self._sweep()
            raise
        self._pools.started(pool)
        response.stream = self.stream(response.stream, self, pool)
        return response

    async def end(self, pool: _Pool[httpx.AsyncHTTPTransport]) -> None:
        """Record that a response was closed, and close connections that are no longer needed."""
        self._pools.ended(pool)
        await self._sweep()

    async def aclose(self) -> None:
        """Close every connection."""
        for transport in self._pools.clear():
            await transport.aclose()

    async def _sweep(self) -> None:
        transports, connections = self._pools.sweep()
        for closing in (*transports, *connections):
            await closing.aclose()


class WatchedStream:
    """The body of a response, which notifies the transport when it is closed."""

    def __init__(
        self, inner: httpx.SyncByteStream, transport: PooledTransport, pool: _Pool[httpx.HTTPTransport]
    ) -> None:
        self._inner = inner
        self._transport = transport
        self._pool = pool
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self._inner

    def close(self) -> None:
        """End the response, once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._inner.close()
        finally:
            self._transport.end(self._pool)


class AsyncWatchedStream:
    """The same as ``WatchedStream`` for asyncio."""

    def __init__(
        self,
        inner: httpx.AsyncByteStream,
        transport: AsyncPooledTransport,
        pool: _Pool[httpx.AsyncHTTPTransport],
    ) -> None:
        self._inner = inner
        self._transport = transport
        self._pool = pool
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            yield part

    async def aclose(self) -> None:
        """End the response, once."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._inner.aclose()
        finally:
            await self._transport.end(self._pool)
