"""What the adapters for httpx and httpx2 promise beyond what all adapters do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.util import find_spec
from io import BytesIO
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

from keyferry import ClusterAuthError, ClusterSession
from support.api_server import LOOPBACK, ApiServer, running_proxy
from support.certificates import Authority
from support.kube import OTHER, TOKEN, Kube, credential

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

PATH = "/api/v1/namespaces"


class Door:
    """What a session has for a library: httpx, or httpx2, its successor with the same names."""

    def __init__(self, library: ModuleType) -> None:
        self.library: Any = library

    def client(self, session: ClusterSession, **options: Any) -> Any:
        """Return the ready client."""
        return getattr(session, f"{self.library.__name__}_client")(**options)

    def async_client(self, session: ClusterSession) -> Any:
        """Return the ready client for asyncio."""
        return getattr(session, f"{self.library.__name__}_async_client")()

    def auth(self, session: ClusterSession) -> Any:
        """Return the auth for a client of the user."""
        return getattr(session, f"{self.library.__name__}_auth")()


@pytest.fixture(params=[Door(httpx), Door(httpx2)], ids=lambda door: door.library.__name__)
def door(request: pytest.FixtureRequest) -> Door:
    """The library that is tested."""
    found: Door = request.param
    return found


def pieces() -> Iterator[bytes]:
    """A body that can be read only once."""
    yield b"{}"


async def async_pieces() -> AsyncIterator[bytes]:
    """As ``pieces``, for asyncio."""
    yield b"{}"


@pytest.mark.parametrize("make", [pieces, lambda: BytesIO(b"{}")], ids=["iterator", "file"])
def test_body_that_was_used_up_is_not_sent_again(
    door: Door, kube: Kube, server: ApiServer, make: Callable[[], Iterator[bytes]]
) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    with door.client(kube.session()) as client:
        assert client.post(PATH, content=make()).status_code == 401
        assert [seen.body for seen in server.seen] == [b"{}"]
        assert client.post(PATH, content=b"{}").status_code == 200
    assert kube.runs() == 2


def test_async_body_that_was_used_up_is_not_sent_again(door: Door, kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}

    async def post() -> list[int]:
        async with door.async_client(kube.session()) as client:
            contents = (async_pieces(), b"{}")
            return [(await client.post(PATH, content=content)).status_code for content in contents]

    assert asyncio.run(post()) == [401, 200]
    assert kube.runs() == 2


@pytest.mark.parametrize("host", ["localhost", LOOPBACK], ids=["another host", "another port"])
def test_another_server_gets_nothing(
    door: Door, kube: Kube, server: ApiServer, authority: Authority, host: str
) -> None:
    """The ready clients do not go there, and the auth gives it nothing."""
    session = kube.session()
    refused = "connects only to its cluster, not to"
    with ApiServer(authority, host) as other:
        url = f"https://{host}:{other.port}"
        with door.client(session) as ready:
            with pytest.raises(ClusterAuthError, match=refused):
                ready.get(f"{url}/")
            assert ready.get(f"{server.url}{PATH}").status_code == 200

        async def ask() -> None:
            async with door.async_client(session) as ready:
                with pytest.raises(ClusterAuthError, match=refused):
                    await ready.get(f"{url}/")

        asyncio.run(ask())
        assert other.seen == []
        with door.library.Client(
            verify=session.ssl_context(), trust_env=False, auth=door.auth(session)
        ) as own:
            assert own.get(f"{server.url}{PATH}").status_code == 200
            assert own.get(f"{url}{PATH}").status_code == 401
        assert [seen.authorization for seen in other.seen] == [""]
    assert kube.runs() == 1


@pytest.mark.parametrize("option", ["auth", "base_url", "cert", "proxy", "transport", "verify"])
def test_options_that_the_session_decides_are_refused(door: Door, kube: Kube, option: str) -> None:
    with pytest.raises(TypeError, match=f"sets these options itself: {option}"):
        door.client(kube.session(), **{option: None})


def test_limits_are_kept(door: Door, kube: Kube, server: ApiServer) -> None:
    limits = door.library.Limits(max_connections=5, max_keepalive_connections=0)
    with door.client(kube.session(), limits=limits) as client:
        client.get(PATH)
        client.get(PATH)
    assert server.connections() == [1, 2]


@pytest.mark.parametrize(
    ("variables", "is_asked"),
    [
        pytest.param({"HTTPS_PROXY": "http://{proxy}"}, True, id="one"),
        pytest.param({"HTTPS_PROXY": "http://{proxy}", "NO_PROXY": ".invalid"}, False, id="excepted"),
        pytest.param({"ALL_PROXY": "http://{proxy}"}, False, id="not Go's"),
    ],
)
def test_proxies_of_the_environment_are_used_if_asked(
    door: Door,
    kube: Kube,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    is_asked: bool,
) -> None:
    """By the same rules as everywhere (``tests/net/test_url.py``); only the proxy knows where the server is."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with running_proxy() as proxy, ApiServer(authority, "api.cluster.invalid") as server:
        server.tokens = {TOKEN}
        kube.write(f"https://api.cluster.invalid:{server.port}", ca=authority.pem)
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(proxy=proxy.address))
        with door.client(kube.session(), trust_env=True) as client:
            if is_asked:
                assert client.get(PATH).status_code == 200
            else:
                with pytest.raises(door.library.ConnectError):
                    client.get(PATH)
        assert [seen.token for seen in server.seen] == [TOKEN] * is_asked
        assert len(proxy.told) == is_asked


def test_a_proxy_of_the_environment_is_not_for_this_machine(
    door: Door, kube: Kube, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with door.client(kube.session(), trust_env=True) as client:
        assert client.get(PATH).status_code == 200
    assert len(server.seen) == 1


@pytest.mark.skipif(find_spec("socksio") is not None, reason="httpx[socks] is installed")
def test_socks_proxy_says_what_it_needs(door: Door, kube: Kube) -> None:
    kube.write("https://k", cluster={"proxy-url": "socks5://proxy:1080"})
    with pytest.raises(ClusterAuthError, match=rf"requires {door.library.__name__}\[socks\]"):
        door.client(kube.load())


def test_server_without_a_scheme_is_plain_http(door: Door, kube: Kube) -> None:
    kube.write("localhost:8080")
    with door.client(kube.load()) as client:
        assert client.base_url == "http://localhost:8080"


def test_server_that_is_no_url_is_refused(door: Door, kube: Kube) -> None:
    kube.write("https://[::")
    with pytest.raises(ClusterAuthError, match="not a URL"):
        door.auth(kube.load())


def test_streams_left_open_end_with_the_client(
    door: Door, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    old, new = authority.client(), authority.client()
    kube.answer(credential(pair=old, seconds=100), credential(pair=new))
    server.serials = {old.serial, new.serial}
    client = door.client(kube.session())
    with client.stream("GET", "/watch") as response:
        server.push("one")
        assert next(response.iter_lines()) == "one"
        kube.clock.step(101)
        assert client.get(PATH).status_code == 200
        client.close()
    assert [seen.serial for seen in server.seen] == [old.serial, new.serial]
