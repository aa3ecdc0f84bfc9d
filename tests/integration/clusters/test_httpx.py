"""What the httpx adapter promises beyond what all adapters do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from io import BytesIO

import httpx
import pytest

from keyferry.clusters.adapters.httpx import ClusterAuth, make_client
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.session import ClusterSession
from keyferry.errors import ClusterAuthError
from support.api_server import ApiServer, running_proxy
from support.certificates import Authority
from support.kube import OTHER, TOKEN, Kube, credential

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

PATH = "/api/v1/namespaces"


def pieces() -> Iterator[bytes]:
    """A body that can be read only once."""
    yield b"{}"


async def async_pieces() -> AsyncIterator[bytes]:
    """As ``pieces``, for asyncio."""
    yield b"{}"


def test_building_a_client_runs_nothing(kube: Kube) -> None:
    session = kube.session()
    session.httpx_client().close()
    asyncio.run(session.httpx_async_client().aclose())
    session.httpx_auth()
    assert kube.runs() == 0


def test_first_request_does_not_block_the_event_loop(kube: Kube) -> None:
    kube.wait(0.3)

    async def count_ticks() -> tuple[int, int]:
        async with kube.session().httpx_async_client() as client:
            request = asyncio.create_task(client.get(PATH))
            ticks = 0
            while not request.done():
                await asyncio.sleep(0.01)
                ticks += 1
            return (await request).status_code, ticks

    status, ticks = asyncio.run(count_ticks())
    assert status == 200
    assert ticks > 5


@pytest.mark.parametrize("content", [pieces(), BytesIO(b"{}")], ids=["iterator", "file"])
def test_body_that_was_used_up_is_not_sent_again(
    kube: Kube, server: ApiServer, content: Iterator[bytes]
) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    with kube.session().httpx_client() as client:
        assert client.post(PATH, content=content).status_code == 401
        assert [seen.body for seen in server.seen] == [b"{}"]
        assert client.post(PATH, content=b"{}").status_code == 200
    assert kube.runs() == 2


def test_async_body_that_was_used_up_is_not_sent_again(kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}

    async def post() -> list[int]:
        async with kube.session().httpx_async_client() as client:
            contents = (async_pieces(), b"{}")
            return [(await client.post(PATH, content=content)).status_code for content in contents]

    assert asyncio.run(post()) == [401, 200]
    assert kube.runs() == 2


def test_own_impersonation_goes_before_that_of_the_kubeconfig(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    kube.write(server.url, ca=authority.pem, user=kube.exec_user() | {"as": "jane", "as-groups": ["devs"]})
    with kube.session().httpx_client(headers={"Impersonate-User": "jo"}) as client:
        client.get(PATH)
    (seen,) = server.seen
    assert (seen.all("Impersonate-User"), seen.all("Impersonate-Group")) == (["jo"], [])


def test_token_beyond_ascii_is_sent_as_it_is(kube: Kube, server: ApiServer) -> None:
    kube.answer(credential("tökén"))
    with kube.session().httpx_client() as client:
        client.get(PATH)
    assert server.seen[0].token.encode("latin-1").decode() == "tökén"


def test_ready_client_reaches_its_cluster_only(kube: Kube, server: ApiServer, authority: Authority) -> None:
    with ApiServer(authority, "localhost") as other, kube.session().httpx_client() as client:
        with pytest.raises(ClusterAuthError, match="connects only to its cluster, not to 'localhost'"):
            client.get(f"https://localhost:{other.port}/")
        assert other.seen == []
        assert client.get(f"{server.url}{PATH}").status_code == 200


def test_auth_gives_other_servers_nothing(kube: Kube, authority: Authority) -> None:
    session = kube.session()
    context = session.ssl_context()
    with ApiServer(authority, "localhost") as other, httpx.Client(verify=context, trust_env=False) as client:
        url = f"https://localhost:{other.port}/"
        assert client.get(url, auth=session.httpx_auth()).status_code == 401
        assert [seen.authorization for seen in other.seen] == [""]
    assert kube.runs() == 1


def test_another_port_is_another_server(kube: Kube, server: ApiServer, authority: Authority) -> None:
    """The ready client does not go there, and the auth gives it nothing."""
    session = kube.session()
    with ApiServer(authority) as other:
        with (
            session.httpx_client() as ready,
            pytest.raises(ClusterAuthError, match="connects only to its cluster, not to"),
        ):
            ready.get(f"{other.url}/")
        with httpx.Client(verify=session.ssl_context(), trust_env=False, auth=session.httpx_auth()) as own:
            assert own.get(f"{server.url}{PATH}").status_code == 200
            assert own.get(f"{other.url}{PATH}").status_code == 401
        assert [seen.authorization for seen in other.seen] == [""]

        async def ask() -> None:
            async with session.httpx_async_client() as ready:
                with pytest.raises(ClusterAuthError, match="connects only to its cluster, not to"):
                    await ready.get(f"{other.url}/")

        asyncio.run(ask())
        assert len(other.seen) == 1
    assert kube.runs() == 1


@pytest.mark.parametrize("option", ["auth", "base_url", "cert", "proxy", "transport", "verify"])
def test_options_that_the_session_decides_are_refused(kube: Kube, option: str) -> None:
    with pytest.raises(TypeError, match=f"sets these options itself: {option}"):
        kube.session().httpx_client(**{option: None})


def test_limits_are_kept(kube: Kube, server: ApiServer) -> None:
    limits = httpx.Limits(max_connections=5, max_keepalive_connections=0)
    with kube.session().httpx_client(limits=limits) as client:
        client.get(PATH)
        client.get(PATH)
    assert server.connections() == [1, 2]


def test_compression_can_be_disabled_by_the_cluster(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    kube.write(server.url, ca=authority.pem, cluster={"disable-compression": True})
    with kube.session().httpx_client() as client:
        client.get(PATH)
    assert server.seen[0].all("Accept-Encoding") == ["identity"]


@pytest.mark.parametrize(
    ("variables", "is_asked"),
    [
        pytest.param({"HTTPS_PROXY": "http://{proxy}"}, True, id="upper case"),
        pytest.param({"https_proxy": "{proxy}"}, True, id="lower case"),
        pytest.param({"HTTPS_PROXY": "http://{proxy}", "https_proxy": "http://127.0.0.1:1"}, True, id="both"),
        pytest.param({"HTTPS_PROXY": "http://{proxy}", "NO_PROXY": ".invalid"}, False, id="excepted"),
        pytest.param(
            {"HTTPS_PROXY": "http://{proxy}", "NO_PROXY": ".invalid", "no_proxy": ""}, False, id="empty"
        ),
        pytest.param({"ALL_PROXY": "http://{proxy}"}, False, id="not Go's"),
    ],
)
def test_proxies_of_the_environment_are_used_if_asked(
    kube: Kube,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    is_asked: bool,
) -> None:
    """By the same rules as everywhere; only the proxy knows where the server is."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with running_proxy() as proxy, ApiServer(authority, "api.cluster.invalid") as server:
        server.tokens = {TOKEN}
        kube.write(f"https://api.cluster.invalid:{server.port}", ca=authority.pem)
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(proxy=proxy.address))
        with kube.session().httpx_client(trust_env=True) as client:
            if is_asked:
                assert client.get(PATH).status_code == 200
            else:
                with pytest.raises(httpx.ConnectError):
                    client.get(PATH)
        assert [seen.token for seen in server.seen] == [TOKEN] * is_asked
        assert len(proxy.told) == is_asked


def test_a_proxy_of_the_environment_is_not_for_this_machine(
    kube: Kube, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with kube.session().httpx_client(trust_env=True) as client:
        assert client.get(PATH).status_code == 200
    assert len(server.seen) == 1


@pytest.mark.parametrize("url", ["ftp://jo:proxy-pass@proxy", "proxy:3128", "http://jo:proxy-pass@[::"])
def test_proxy_of_an_unknown_kind_is_refused_without_its_password(url: str) -> None:
    session = ClusterSession(ClientConfig(server="https://k", proxy_url=url))
    with pytest.raises(ClusterAuthError, match="the proxy is not an http, https or socks5 URL") as caught:
        session.httpx_client()
    assert "proxy-pass" not in repr(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.skipif(find_spec("socksio") is not None, reason="httpx[socks] is installed")
def test_socks_proxy_says_what_it_needs() -> None:
    session = ClusterSession(ClientConfig(server="https://k", proxy_url="socks5://proxy:1080"))
    with pytest.raises(ClusterAuthError, match=r"requires httpx\[socks\]"):
        session.httpx_client()


def test_server_without_a_scheme_is_plain_http() -> None:
    with make_client(ClusterSession(ClientConfig(server="localhost:8080"))) as client:
        assert client.base_url == "http://localhost:8080"


def test_server_that_is_no_url_is_refused() -> None:
    with pytest.raises(ClusterAuthError, match="not a URL"):
        ClusterAuth(ClusterSession(ClientConfig(server="https://[::")))


def test_contradicting_trust_is_an_error_of_the_cluster(server: ApiServer, authority: Authority) -> None:
    config = ClientConfig(server=server.url, insecure=True, ca_data=authority.pem.encode())
    with (
        ClusterSession(config).httpx_client() as client,
        pytest.raises(ClusterAuthError, match="insecure-skip-tls-verify are both set"),
    ):
        client.get(PATH)
    assert server.seen == []


def test_streams_left_open_end_with_the_client(kube: Kube, server: ApiServer, authority: Authority) -> None:
    old, new = authority.client(), authority.client()
    kube.answer(credential(pair=old, seconds=100), credential(pair=new))
    server.serials = {old.serial, new.serial}
    client = kube.session().httpx_client()
    with client.stream("GET", "/watch") as response:
        server.push("one")
        assert next(response.iter_lines()) == "one"
        kube.clock.step(101)
        assert client.get(PATH).status_code == 200
        client.close()
    assert [seen.serial for seen in server.seen] == [old.serial, new.serial]
