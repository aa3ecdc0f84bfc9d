"""What the adapter for aiohttp promises beyond what all adapters do."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, BinaryIO

import aiohttp
import pytest
from aiohttp.client_middlewares import ClientHandlerType
from yarl import URL

from keyferry import ClusterAuthError, ClusterSession
from keyferry.clusters.adapters.aiohttp import make_without_middlewares
from keyferry.clusters.adapters.aiohttp_connector import ClusterConnector
from support.api_server import LOOPBACK, ApiServer
from support.certificates import Authority
from support.kube import OTHER, TOKEN, Kube, credential
from support.plugins import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

PATH = "/api/v1/namespaces"
Make = Callable[..., aiohttp.ClientSession]


def make_older(cluster: ClusterSession, **options: Any) -> aiohttp.ClientSession:
    """A session as it is made where aiohttp has no middlewares."""
    return make_without_middlewares(cluster, None, {"connector": ClusterConnector(cluster), **options})


MAKES: dict[str, Make] = {"middleware": ClusterSession.aiohttp_session, "older": make_older}


@pytest.fixture(params=MAKES)
def make(request: pytest.FixtureRequest) -> Make:
    """How a session is made."""
    return MAKES[request.param]


def run(cluster: ClusterSession, make: Make, work: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    """Do *work* with a session, on an event loop."""

    async def main() -> Any:
        async with make(cluster) as client:
            return await work(client)

    return asyncio.run(main())


async def get(client: aiohttp.ClientSession, path: str = PATH, **options: Any) -> int:
    """The status of an answer that was read to its end."""
    async with client.get(path, **options) as response:
        await response.read()
        return response.status


async def post(client: aiohttp.ClientSession, data: object) -> int:
    """As ``get``, with a body."""
    async with client.post(PATH, data=data) as response:
        await response.read()
        return response.status


async def pieces() -> AsyncIterator[bytes]:
    """A body that can be read only once."""
    yield b"{}"


def piped(data: bytes) -> BinaryIO:
    """A stream that can be read only once."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return open(reader, "rb")


def test_paths_are_relative_to_the_server(
    kube: Kube, server: ApiServer, authority: Authority, make: Make
) -> None:
    async def work(client: aiohttp.ClientSession) -> None:
        await get(client, "api")
        await get(client, "/api")

    run(kube.session(), make, work)
    kube.write(f"{server.url}/clusters/c%201", ca=authority.pem)
    run(kube.session(), make, work)
    paths = [seen.path for seen in server.seen]
    assert paths == ["/api", "/api", "/clusters/c%201/api", "/api"]


def test_verification_cannot_be_turned_off(kube: Kube, server: ApiServer, make: Make) -> None:
    kube.write(server.url, ca=Authority().pem)

    async def work(client: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await get(client, ssl=False)

    run(kube.session(), make, work)
    assert server.seen == []


@pytest.mark.parametrize("host", ["localhost", LOOPBACK], ids=["another host", "another port"])
def test_session_reaches_its_cluster_only(kube: Kube, authority: Authority, make: Make, host: str) -> None:
    with ApiServer(authority, host) as other:

        async def work(client: aiohttp.ClientSession) -> None:
            with pytest.raises(ClusterAuthError, match="connects only to its cluster, not to"):
                await get(client, f"https://{host}:{other.port}/")

        run(kube.session(), make, work)
        assert (other.seen, list(other.open)) == ([], [])
    assert kube.runs() == 0


def test_file_is_sent_again_from_where_it_stood(kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}

    async def work(client: aiohttp.ClientSession) -> int:
        body = io.BytesIO(b"skipped{}")
        body.seek(7)
        return await post(client, body)

    assert run(kube.session(), ClusterSession.aiohttp_session, work) == 200
    assert [seen.body for seen in server.seen] == [b"{}", b"{}"]


def test_body_that_was_used_up_is_not_sent_again(kube: Kube, server: ApiServer, make: Make) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}

    async def work(client: aiohttp.ClientSession) -> list[int]:
        return [await post(client, data) for data in (pieces(), "{}")]

    assert run(kube.session(), make, work) == [401, 200]
    assert [seen.body for seen in server.seen] == [b"{}", b"{}"]
    assert kube.runs() == 2


def test_stream_that_was_read_to_its_end_is_not_sent_again(kube: Kube, server: ApiServer, make: Make) -> None:
    """What comes through a pipe is gone: a second request would have an empty body, and be believed."""
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}

    async def work(client: aiohttp.ClientSession) -> int:
        with piped(b"{}") as body:
            return await post(client, body)

    assert run(kube.session(), make, work) == 401
    assert [(seen.body, seen.status) for seen in server.seen] == [(b"{}", 401)]
    assert kube.runs() == 2


def test_every_idle_connection_of_an_old_certificate_is_closed(
    kube: Kube, server: ApiServer, authority: Authority, make: Make
) -> None:
    """Also those that the request at hand could not have used."""
    old, new = authority.client(), authority.client()
    kube.answer(credential(pair=old, seconds=100), credential(pair=new))
    server.serials = {old.serial, new.serial}

    async def work(client: aiohttp.ClientSession) -> None:
        # Kept apart by aiohttp, though what a request says about TLS does not count here.
        assert [await get(client, ssl=False), await get(client)] == [200, 200]
        assert len(server.open) == 2
        kube.clock.step(101)
        assert await get(client) == 200
        await asyncio.to_thread(wait_until, lambda: len(server.open) == 1, "the old connections to be closed")

    run(kube.session(), make, work)
    assert [seen.serial for seen in server.seen] == [old.serial, old.serial, new.serial]


def test_refusal_that_is_made_good_raises_nothing(kube: Kube, server: ApiServer, make: Make) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}

    async def work(client: aiohttp.ClientSession) -> int:
        return await get(client, raise_for_status=True)

    assert run(kube.session(), make, work) == 200
    assert len(server.seen) == 2


def test_refusal_that_stays_is_raised_if_asked(kube: Kube, server: ApiServer, make: Make) -> None:
    server.always = 401

    async def judge(response: aiohttp.ClientResponse) -> None:
        raise LookupError(response.status)

    async def work(client: aiohttp.ClientSession) -> None:
        await get(client)
        kube.answer()
        with pytest.raises(aiohttp.ClientResponseError, match="401"):
            await get(client, raise_for_status=True)
        with pytest.raises(LookupError, match="401"):
            await get(client, raise_for_status=judge)

    run(kube.session(), make, work)


def test_request_that_is_given_up_while_the_plugin_runs_harms_no_other(
    kube: Kube, server: ApiServer, make: Make
) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))

    async def work(client: aiohttp.ClientSession) -> int:
        await get(client)
        server.tokens = {OTHER}
        kube.wait(0.5)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(get(client), 0.2)
        return await get(client)

    assert run(kube.session(), make, work) == 200
    assert kube.runs() == 2


def test_own_authorization_of_the_session_is_left_alone(kube: Kube, server: ApiServer, make: Make) -> None:
    server.tokens = {OTHER}

    async def main() -> int:
        async with make(kube.session(), headers={"Authorization": f"Bearer {OTHER}"}) as client:
            return await get(client)

    assert asyncio.run(main()) == 200
    assert kube.runs() == 0


def test_middlewares_of_the_caller_see_only_the_outcome(kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    seen = []

    async def note(request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
        assert "Authorization" not in request.headers
        response = await handler(request)
        seen.append(response.status)
        return response

    async def main() -> None:
        async with kube.session().aiohttp_session(middlewares=[note]) as client:
            await get(client)

    asyncio.run(main())
    assert seen == [200]


def test_token_that_is_no_text_is_in_no_error(
    kube: Kube, server: ApiServer, authority: Authority, make: Make
) -> None:
    path = kube.folder / "token"
    path.write_bytes(b"s3cret\xff")
    kube.write(server.url, ca=authority.pem, user={"tokenFile": str(path)})

    async def work(client: aiohttp.ClientSession) -> None:
        with pytest.raises(ClusterAuthError, match="the token is not valid UTF-8") as caught:
            await get(client)
        assert caught.value.__context__ is None

    run(kube.session(), make, work)


@pytest.mark.parametrize("option", ["auth", "base_url", "connector", "proxy", "proxy_auth", "trust_env"])
def test_options_that_the_session_decides_are_refused(kube: Kube, option: str) -> None:
    with pytest.raises(TypeError, match=f"sets these options itself: {option}"):
        kube.session().aiohttp_session(**{option: None})


def test_limits_are_those_of_the_connector(kube: Kube) -> None:
    async def main() -> tuple[int, int]:
        async with kube.session().aiohttp_session(limit=7, limit_per_host=3) as client:
            assert client.connector is not None
            return client.connector.limit, client.connector.limit_per_host

    assert asyncio.run(main()) == (7, 3)


@pytest.mark.parametrize("url", ["https://[::", "https://"])
def test_server_that_is_no_url_is_refused(kube: Kube, url: str) -> None:
    kube.write(url)

    async def main() -> None:
        with pytest.raises(ClusterAuthError, match="not a URL"):
            kube.load().aiohttp_session()

    asyncio.run(main())


def test_server_without_a_scheme_is_plain_http(kube: Kube) -> None:
    kube.write("localhost:8080")

    async def main() -> URL | None:
        async with kube.load().aiohttp_session() as client:
            return client._base_url

    assert asyncio.run(main()) == URL("http://localhost:8080/")
