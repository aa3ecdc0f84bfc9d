"""One small driver per adapter, so that one suite can test them all.

The suite uses only ``Driver``: requests, streams, many requests at once, close.
To test another adapter, write a driver and add it to ``DRIVERS``:

* for a synchronous library subclass ``SyncDriver`` and write ``__init__(session)``,
  ``request``, ``stream`` and ``close``;
* for an asynchronous one subclass ``AsyncDriver`` and write ``open`` (on the event
  loop; nothing may block there), ``send``, ``lines`` and ``finish``.

Rules for every driver:

* *path* is relative to ``session.server``, begins with ``/`` and may have a query;
* ``request`` returns every HTTP status as a ``Reply`` and raises for none; if a library raises
  for 4xx (as the kubernetes client does), the driver turns its exception into a ``Reply``;
* keyferry's exceptions are raised unchanged, and so are the library's own errors (TLS, connection);
* *document*, if there is one, is sent as JSON; *headers* are added to the library's own;
* redirects are followed if the library can do this;
* ``stream`` yields the lines of a long response as they arrive, without their end, and closing the generator
  ends the response;
* no proxies or other settings are read from the environment, and a response may take a few seconds.

``rotates`` is False for a method that provides only part of the connection and so does not replace
connections with an old certificate.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import aiohttp
import httpx
import httpx2
import pytest
import requests
from urllib3.exceptions import InsecureRequestWarning
from yarl import URL

from keyferry.clusters.adapters.aiohttp import make_without_middlewares
from keyferry.clusters.adapters.aiohttp_connector import ClusterConnector
from keyferry.clusters.session import ClusterSession

TIMEOUT_SECONDS = 20.0
Document = Mapping[str, object]
Headers = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of a server."""

    status: int
    body: str


class Driver(ABC):
    """The interface of an adapter that the suite uses."""

    name: ClassVar[str]
    rotates: ClassVar[bool] = True

    @abstractmethod
    def __init__(self, session: ClusterSession) -> None: ...

    @abstractmethod
    def request(
        self, method: str, path: str, *, document: Document | None = None, headers: Headers | None = None
    ) -> Reply:
        """Send a request and read the whole response."""

    @abstractmethod
    def stream(self, path: str) -> Generator[str]:
        """Read a long response line by line, as it arrives."""

    @abstractmethod
    def at_once(self, path: str, count: int) -> list[Reply | BaseException]:
        """Send *count* equal requests at the same time; return the result of each."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    def get(self, path: str, *, headers: Headers | None = None) -> Reply:
        """Send a GET request for *path*."""
        return self.request("GET", path, headers=headers)

    def post(self, path: str, document: Document) -> Reply:
        """Send *document* to *path*."""
        return self.request("POST", path, document=document)


class SyncDriver(Driver):
    """A driver of a blocking library; simultaneous requests use threads."""

    def at_once(self, path: str, count: int) -> list[Reply | BaseException]:
        """Send *count* equal requests, each from its own thread."""
        barrier = threading.Barrier(count)

        def work() -> Reply:
            barrier.wait()
            return self.get(path)

        with ThreadPoolExecutor(count) as pool:
            futures = [pool.submit(work) for _ in range(count)]
            return [future.exception() or future.result() for future in futures]


class AsyncDriver(Driver):
    """A driver of an asyncio library, on an event loop in its own thread."""

    def __init__(self, session: ClusterSession) -> None:
        self.session = session
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.run(self.open())
        except BaseException:
            self._end_loop()
            raise

    @abstractmethod
    async def open(self) -> None:
        """Create the client, from ``self.session``."""

    @abstractmethod
    async def send(self, method: str, path: str, document: Document | None, headers: Headers | None) -> Reply:
        """Send a request and read the whole response."""

    @abstractmethod
    def lines(self, path: str) -> AsyncIterator[str]:
        """Read a long response line by line; an async generator."""

    @abstractmethod
    async def finish(self) -> None:
        """Close the client."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the driver's event loop, and wait for it."""
        return self.begin(work).result(3 * TIMEOUT_SECONDS)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin *work* on the driver's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def request(
        self, method: str, path: str, *, document: Document | None = None, headers: Headers | None = None
    ) -> Reply:
        """Send a request and read the whole response."""
        return self.run(self.send(method, path, document, headers))

    def stream(self, path: str) -> Generator[str]:
        """Read a long response line by line, as it arrives."""
        lines = self.lines(path)
        try:
            while (line := self.run(_next(lines))) is not None:
                yield line
        finally:
            self.run(_close(lines))

    def at_once(self, path: str, count: int) -> list[Reply | BaseException]:
        """Send *count* equal requests, each from its own task."""

        async def work() -> list[Reply | BaseException]:
            sends = [self.send("GET", path, None, None) for _ in range(count)]
            return await asyncio.gather(*sends, return_exceptions=True)

        return self.run(work())

    def close(self) -> None:
        """Close the client and end the event loop."""
        self.run(self.finish())
        self._end_loop()

    def _end_loop(self) -> None:
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
        """Return the client under test."""
        return session.httpx_client(timeout=TIMEOUT_SECONDS, follow_redirects=True)

    def request(
        self, method: str, path: str, *, document: Document | None = None, headers: Headers | None = None
    ) -> Reply:
        """Send a request and read the whole response."""
        response = self.client.request(method, path, json=document, headers=headers)
        return Reply(response.status_code, response.text)

    def stream(self, path: str) -> Generator[str]:
        """Read a long response line by line, as it arrives."""
        with self.client.stream("GET", path) as response:
            yield from response.iter_lines()

    def close(self) -> None:
        """Close the client."""
        self.client.close()


class HttpxAuth(HttpxClient):
    """A client created by the user with ``session.httpx_auth()`` and ``session.ssl_context()``."""

    name = "httpx-auth"
    rotates = False

    def make(self, session: ClusterSession) -> httpx.Client:
        """Return the client under test."""
        return httpx.Client(
            auth=session.httpx_auth(),
            verify=session.ssl_context(),
            base_url=session.server,
            timeout=TIMEOUT_SECONDS,
            follow_redirects=True,
            trust_env=False,
        )


class Httpx2Client(HttpxClient):
    """``session.httpx2_client()``; httpx2 has the names of httpx."""

    name = "httpx2"

    def make(self, session: ClusterSession) -> Any:
        """Return the client under test."""
        return session.httpx2_client(timeout=TIMEOUT_SECONDS, follow_redirects=True)


class Httpx2Auth(HttpxClient):
    """A client of httpx2 created by the user with ``session.httpx2_auth()`` and ``session.ssl_context()``."""

    name = "httpx2-auth"
    rotates = False

    def make(self, session: ClusterSession) -> Any:
        """Return the client under test."""
        return httpx2.Client(
            auth=session.httpx2_auth(),
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
        """Create the client."""
        self.client: Any = self.session.httpx_async_client(timeout=TIMEOUT_SECONDS, follow_redirects=True)

    async def send(self, method: str, path: str, document: Document | None, headers: Headers | None) -> Reply:
        """Send a request and read the whole response."""
        response = await self.client.request(method, path, json=document, headers=headers)
        return Reply(response.status_code, response.text)

    async def lines(self, path: str) -> AsyncIterator[str]:
        """Read a long response line by line, as it arrives."""
        async with self.client.stream("GET", path) as response:
            async for line in response.aiter_lines():
                yield line

    async def finish(self) -> None:
        """Close the client."""
        await self.client.aclose()


class Httpx2AsyncClient(HttpxAsyncClient):
    """``session.httpx2_async_client()``."""

    name = "httpx2-async"

    async def open(self) -> None:
        """Create the client."""
        self.client = self.session.httpx2_async_client(timeout=TIMEOUT_SECONDS, follow_redirects=True)


def expected_warnings(session: ClusterSession) -> Callable[[], AbstractContextManager[object]]:
    """Return the warnings of urllib3 that are expected if the kubeconfig disables verification."""
    is_unverified = session.config.insecure and not session.config.ca_data
    return partial(pytest.warns, InsecureRequestWarning) if is_unverified else nullcontext


class RequestsSession(SyncDriver):
    """A ``requests.Session`` with ``session.mount_requests()``."""

    name = "requests"

    def __init__(self, session: ClusterSession) -> None:
        self.server = session.server
        self.client = session.mount_requests(requests.Session())
        self.warnings = expected_warnings(session)

    def request(
        self, method: str, path: str, *, document: Document | None = None, headers: Headers | None = None
    ) -> Reply:
        """Send a request and read the whole response."""
        url = self.server + path
        with self.warnings():
            response = self.client.request(
                method, url, json=document, headers=headers, timeout=TIMEOUT_SECONDS
            )
        return Reply(response.status_code, response.text)

    def stream(self, path: str) -> Generator[str]:
        """Read a long response line by line, as it arrives."""
        with self.client.get(self.server + path, stream=True, timeout=TIMEOUT_SECONDS) as response:
            for line in response.iter_lines(chunk_size=None):
                yield line.decode()

    def close(self) -> None:
        """Close the session."""
        self.client.close()


class AiohttpSession(AsyncDriver):
    """``session.aiohttp_session()``."""

    name = "aiohttp"

    async def open(self) -> None:
        """Create the session."""
        timeout = aiohttp.ClientTimeout(TIMEOUT_SECONDS)
        self.client = self.session.aiohttp_session(timeout=timeout)

    async def send(self, method: str, path: str, document: Document | None, headers: Headers | None) -> Reply:
        """Send a request and read the whole response."""
        url = self.session.server + path
        async with self.client.request(method, url, json=document, headers=headers) as response:
            return Reply(response.status, await response.text())

    async def lines(self, path: str) -> AsyncIterator[str]:
        """Read a long response line by line, as it arrives."""
        async with self.client.get(self.session.server + path) as response:
            async for line in response.content:
                yield line.decode().removesuffix("\n")

    async def finish(self) -> None:
        """Close the session."""
        await self.client.close()


class OlderAiohttpSession(AiohttpSession):
    """``session.aiohttp_session()`` for versions of aiohttp without middlewares."""

    name = "aiohttp-3.9"

    async def open(self) -> None:
        """Create the session."""
        url = self.session.config.proxy_url
        settings = {
            "connector": ClusterConnector(self.session),
            "timeout": aiohttp.ClientTimeout(TIMEOUT_SECONDS),
        }
        self.client = make_without_middlewares(self.session, URL(url) if url else None, settings)


class KubernetesApiClient(SyncDriver):
    """``session.kubernetes_api_client()``."""

    name = "kubernetes"

    def __init__(self, session: ClusterSession) -> None:
        self.client: Any = session.kubernetes_api_client()
        self.warnings = expected_warnings(session)

    def request(
        self, method: str, path: str, *, document: Document | None = None, headers: Headers | None = None
    ) -> Reply:
        """Send a request and read the whole response."""
        response = self._call(method, path, document, headers)
        return Reply(response.status, response.read().decode())

    def stream(self, path: str) -> Generator[str]:
        """Read a long response line by line, as it arrives."""
        response = self._call("GET", path, None, None).response
        try:
            for part in response.stream(None):
                yield from part.decode().splitlines()
        finally:
            response.close()

    def close(self) -> None:
        """Close the client."""
        self.client.close()

    def _call(self, method: str, path: str, document: Document | None, headers: Headers | None) -> Any:
        """Call the client as its generated methods do, for any path."""
        given = {"Content-Type": "application/json", **(headers or {})}
        request = self.client.param_serialize(
            method, path, header_params=given, body=document, auth_settings=["BearerToken"]
        )
        with self.warnings():
            return self.client.call_api(*request, _request_timeout=TIMEOUT_SECONDS)


# Every adapter that the suite is run for.
DRIVERS: tuple[type[Driver], ...] = (
    HttpxClient,
    HttpxAsyncClient,
    HttpxAuth,
    Httpx2Client,
    Httpx2AsyncClient,
    Httpx2Auth,
    RequestsSession,
    AiohttpSession,
    OlderAiohttpSession,
    KubernetesApiClient,
)
