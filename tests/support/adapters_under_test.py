"""One small driver per adapter, so that one suite can hold them all to the same promises.

The suite sees only ``Driver``: requests, streams, many requests at once, close.
To put another adapter under test, write a driver and add it to ``DRIVERS``:

* for a synchronous library subclass ``SyncDriver`` and write ``__init__(session)``,
  ``request``, ``stream`` and ``close``;
* for an asynchronous one subclass ``AsyncDriver`` and write ``open`` (on the event
  loop; nothing may block there), ``send``, ``lines`` and ``finish``.

What every driver keeps to:

* *path* is relative to ``session.server``, begins with ``/`` and may have a query;
* ``request`` gives every HTTP status back as a ``Reply`` and raises for none; a library that raises
  for 4xx (as the kubernetes client does) has its exception turned into a ``Reply`` by the driver;
* what keyferry raises comes out as it is, and so do the library's own errors (TLS, connection);
* *document*, if there is one, is sent as JSON; *headers* go on top of the library's own;
* redirects are followed if the library can;
* ``stream`` yields the lines of a long response as they arrive, without their end, and closing the generator
  ends the response;
* no proxies or other settings from the environment, and time for a response of a few seconds.

``rotates`` is False for a door that hands out only part of the connection, so that connections made
with an old certificate are not its business.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import httpx

from keyferry.clusters.session import ClusterSession

TIMEOUT_SECONDS = 20.0
Document = Mapping[str, object]
Headers = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered."""

    status: int
    body: str


class Driver(ABC):
    """What the suite sees of an adapter."""

    name: ClassVar[str]
    rotates: ClassVar[bool] = True

    @abstractmethod
    def __init__(self, session: ClusterSession) -> None: ...

    @abstractmethod
    def request(
        self, method: str, path: str, *, document: Document | None = None, headers: Headers | None = None
    ) -> Reply:
        """Send a request and read the whole answer."""

    @abstractmethod
    def stream(self, path: str) -> Generator[str]:
        """Read a long answer line by line, as it comes."""

    @abstractmethod
    def at_once(self, path: str, count: int) -> list[Reply | BaseException]:
        """Send *count* equal requests at the same time: what came of each."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all connections."""

    def get(self, path: str, *, headers: Headers | None = None) -> Reply:
        """Read what is at *path*."""
        return self.request("GET", path, headers=headers)

    def post(self, path: str, document: Document) -> Reply:
        """Send *document* to *path*."""
        return self.request("POST", path, document=document)


class SyncDriver(Driver):
    """A driver of a library that blocks; at once means in threads."""

    def at_once(self, path: str, count: int) -> list[Reply | BaseException]:
        """Send *count* equal requests, each from a thread of its own."""
        barrier = threading.Barrier(count)

        def work() -> Reply:
            barrier.wait()
            return self.get(path)

        with ThreadPoolExecutor(count) as pool:
            futures = [pool.submit(work) for _ in range(count)]
            return [future.exception() or future.result() for future in futures]


class AsyncDriver(Driver):
    """A driver of a library for asyncio, on an event loop in a thread of its own."""

    def __init__(self, session: ClusterSession) -> None:
        self.session = session
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self.open())

    @abstractmethod
    async def open(self) -> None:
        """Make the client, from ``self.session``."""

    @abstractmethod
    async def send(self, method: str, path: str, document: Document | None, headers: Headers | None) -> Reply:
        """Send a request and read the whole answer."""

    @abstractmethod
    def lines(self, path: str) -> AsyncIterator[str]:
        """Read a long answer line by line; an async generator."""

    @abstractmethod
    async def finish(self) -> None:
        """Close the client."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* on the driver's event loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(3 * TIMEOUT_SECONDS)

    def request(
        self, method: str, path: str, *, document: Document | None = None, headers: Headers | None = None
    ) -> Reply:
        """Send a request and read the whole answer."""
        return self.run(self.send(method, path, document, headers))

    def stream(self, path: str) -> Generator[str]:
        """Read a long answer line by line, as it comes."""
        lines = self.lines(path)
        try:
            while (line := self.run(_next(lines))) is not None:
                yield line
        finally:
            self.run(_close(lines))

    def at_once(self, path: str, count: int) -> list[Reply | BaseException]:
        """Send *count* equal requests from as many tasks."""

        async def work() -> list[Reply | BaseException]:
            sends = [self.send("GET", path, None, None) for _ in range(count)]
            return await asyncio.gather(*sends, return_exceptions=True)

        return self.run(work())

    def close(self) -> None:
        """Close the client and end the event loop."""
        self.run(self.finish())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(lines: AsyncIterator[str]) -> str | None:
    return await anext(lines, None)


async def _close(lines: AsyncIterator[str]) -> None:
    close = getattr(lines, "aclose", None)
    if close is not None:
        await close()


class HttpxClient(SyncDriver):
    """``session.httpx_client()``."""

    name = "httpx"

    def __init__(self, session: ClusterSession) -> None:
        self.client = self.make(session)

    def make(self, session: ClusterSession) -> httpx.Client:
        """The client that is driven."""
        return session.httpx_client(timeout=TIMEOUT_SECONDS, follow_redirects=True)

    def request(
        self, method: str, path: str, *, document: Document | None = None, headers: Headers | None = None
    ) -> Reply:
        """Send a request and read the whole answer."""
        response = self.client.request(method, path, json=document, headers=headers)
        return Reply(response.status_code, response.text)

    def stream(self, path: str) -> Generator[str]:
        """Read a long answer line by line, as it comes."""
        with self.client.stream("GET", path) as response:
            yield from response.iter_lines()

    def close(self) -> None:
        """Close the client."""
        self.client.close()


class HttpxAuth(HttpxClient):
    """A client of the user's own with ``session.httpx_auth()`` and ``session.ssl_context()``."""

    name = "httpx-auth"
    rotates = False

    def make(self, session: ClusterSession) -> httpx.Client:
        """The client that is driven."""
        return httpx.Client(
            auth=session.httpx_auth(),
            verify=session.ssl_context(),
            base_url=session.server,
            timeout=TIMEOUT_SECONDS,
            follow_redirects=True,
            trust_env=False,
        )


class HttpxAsyncClient(AsyncDriver):
    """``session.httpx_async_client()``."""

    name = "httpx-async"

    async def open(self) -> None:
        """Make the client."""
        self.client = self.session.httpx_async_client(timeout=TIMEOUT_SECONDS, follow_redirects=True)

    async def send(self, method: str, path: str, document: Document | None, headers: Headers | None) -> Reply:
        """Send a request and read the whole answer."""
        response = await self.client.request(method, path, json=document, headers=headers)
        return Reply(response.status_code, response.text)

    async def lines(self, path: str) -> AsyncIterator[str]:
        """Read a long answer line by line, as it comes."""
        async with self.client.stream("GET", path) as response:
            async for line in response.aiter_lines():
                yield line

    async def finish(self) -> None:
        """Close the client."""
        await self.client.aclose()


# Every adapter that the suite is run for.
DRIVERS: tuple[type[Driver], ...] = (HttpxClient, HttpxAsyncClient, HttpxAuth)
