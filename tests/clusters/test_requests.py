"""What the adapter for requests promises beyond what all adapters do."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from keyferry.clusters.adapters.requests import ClusterAdapter
from keyferry.errors import ClusterAuthError
from support.api_server import ApiServer, running_proxy
from support.certificates import Authority
from support.kube import OTHER, TOKEN, Kube, credential

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

PATH = "/api/v1/namespaces"


@pytest.fixture
def client(kube: Kube) -> Iterator[requests.Session]:
    """A session that reaches the cluster."""
    with kube.session().mount_requests(requests.Session()) as mounted:
        yield mounted


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A netrc file that has a login for the server."""
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1 login jo password netrc-pass\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(path))


def mounted(folder: Path, server: str) -> requests.Session:
    """A session that reaches a cluster by its URL alone."""
    kube = Kube(folder)
    kube.write(server, user={})
    return kube.load().mount_requests(requests.Session())


def pieces() -> Iterator[bytes]:
    """A body that can be read only once."""
    yield b"{}"


def unseekable() -> io.BufferedReader:
    """A file that cannot be read twice."""
    ours, theirs = os.pipe()
    os.write(theirs, b"{}")
    os.close(theirs)
    return open(ours, "rb")


class Closing(io.BytesIO):
    """A file that is closed once it was read."""

    def read(self, size: int | None = -1) -> bytes:
        """Read, and close at the end."""
        data = super().read(size)
        if not data:
            self.close()
        return data


@pytest.mark.parametrize(
    ("server", "url", "is_cluster"),
    [
        ("https://k", "https://k/api", True),
        ("https://k", "https://k:443/api", True),
        ("https://k:443", "https://k/api", True),
        ("https://K.example:6443", "https://k.example:6443/api", True),
        ("https://bücher.example", "https://xn--bcher-kva.example/api", True),
        ("https://[::1]:6443", "https://[::1]:6443/api", True),
        ("k:8080", "http://k:8080/api", True),
        ("https://k/clusters/a", "https://k/clusters/a/api", True),
        ("https://k/clusters/a", "https://k/clusters/b/api", False),
        ("https://k/clusters/a", "https://k/clusters/ab", False),
        ("https://k", "http://k/api", False),
        ("https://k", "https://k.example/api", False),
        ("https://k", "https://k@elsewhere/api", False),
        ("https://k", "https://k:4430/api", False),
        ("https://k:6443", "https://k:64430/api", False),
        ("https://k:6443", "https://k/api", False),
    ],
)
def test_adapter_is_for_the_clusters_urls_alone(
    tmp_path: Path, server: str, url: str, *, is_cluster: bool
) -> None:
    session = mounted(tmp_path, server)
    prepared = requests.Request("GET", url).prepare().url
    assert isinstance(session.get_adapter(str(prepared)), ClusterAdapter) is is_cluster


@pytest.mark.parametrize("server", ["https://[::", "https://", "ftp://k", "https://k:port"])
def test_server_that_is_no_url_is_refused(tmp_path: Path, server: str) -> None:
    with pytest.raises(ClusterAuthError, match="not a URL that requests can use"):
        mounted(tmp_path, server)


def test_other_servers_of_the_session_get_nothing(
    client: requests.Session, kube: Kube, authority: Authority
) -> None:
    with ApiServer(authority, "localhost") as other:
        with pytest.warns(match="Unverified HTTPS request"):
            client.get(f"https://localhost:{other.port}/", verify=False)
        assert [(seen.authorization, seen.serial) for seen in other.seen] == [("", None)]
    assert kube.runs() == 0


def test_verification_cannot_be_turned_off(kube: Kube, server: ApiServer) -> None:
    kube.write(server.url, ca=Authority().pem)
    with kube.session().mount_requests(requests.Session()) as client:
        client.verify = False
        with pytest.raises(requests.exceptions.SSLError, match="certificate verify failed"):
            client.get(server.url, verify=False)
    assert server.seen == []


@pytest.fixture(params=["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def bundle(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the environment says that authorities are; there is nothing yet."""
    path = tmp_path / "bundle.pem"
    monkeypatch.setenv(request.param, str(path))
    return path


def test_bundle_of_the_environment_does_not_count(
    kube: Kube, server: ApiServer, authority: Authority, bundle: Path
) -> None:
    with kube.session().mount_requests(requests.Session()) as client:
        assert client.get(server.url + PATH).status_code == 200
    bundle.write_text(authority.pem, encoding="utf-8")
    kube.write(server.url, ca=Authority().pem)
    with (
        kube.session().mount_requests(requests.Session()) as client,
        pytest.raises(requests.exceptions.SSLError, match="certificate verify failed"),
    ):
        client.get(server.url + PATH)


def test_client_certificate_of_the_caller_does_not_count(client: requests.Session, server: ApiServer) -> None:
    assert client.get(server.url + PATH, cert="/nowhere").status_code == 200


def test_proxies_of_the_caller_do_not_count(client: requests.Session, server: ApiServer) -> None:
    with running_proxy() as proxy:
        assert client.get(server.url, proxies={"https": f"http://{proxy.address}"}).status_code == 200
        assert proxy.told == []


@pytest.mark.usefixtures("netrc")
def test_netrc_does_not_replace_the_credential(
    client: requests.Session, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    server.redirect_to = f"{server.url}{PATH}"
    assert client.get(f"{server.url}/redirect").status_code == 200
    assert [seen.token for seen in server.seen] == [TOKEN, TOKEN]

    pair = authority.client()
    kube.answer(credential(pair=pair))
    server.serials = {pair.serial}
    with kube.session().mount_requests(requests.Session()) as other:
        assert other.get(server.url + PATH).status_code == 200
    assert server.seen[-1].authorization == ""


@pytest.mark.usefixtures("netrc")
def test_explicit_auth_is_left_alone(client: requests.Session, kube: Kube, server: ApiServer) -> None:
    server.logins = {"jo:own-pass"}
    assert client.get(server.url + PATH, auth=("jo", "own-pass")).status_code == 200
    client.auth = ("jo", "stale")
    assert client.get(server.url + PATH).status_code == 401
    assert (kube.runs(), len(server.seen)) == (0, 2)


def test_file_is_sent_again_from_where_it_stood(
    client: requests.Session, kube: Kube, server: ApiServer
) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    body = io.BytesIO(b"skipped{}")
    body.seek(7)
    assert client.post(server.url + PATH, data=body).status_code == 200
    assert [seen.body for seen in server.seen] == [b"{}", b"{}"]


@pytest.mark.parametrize(
    "make", [pieces, unseekable, lambda: Closing(b"{}")], ids=["iterator", "pipe", "closed"]
)
def test_body_that_was_used_up_is_not_sent_again(
    client: requests.Session, kube: Kube, server: ApiServer, make: Callable[[], Any]
) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    body = make()
    assert client.post(server.url + PATH, data=body).status_code == 401
    body.close()
    assert [seen.body for seen in server.seen] == [b"{}"]
    assert client.post(server.url + PATH, data="{}").status_code == 200
    assert kube.runs() == 2


def test_credential_is_not_on_the_callers_objects(client: requests.Session, server: ApiServer) -> None:
    response = client.get(server.url + PATH)
    with pytest.raises(requests.ConnectionError) as caught:
        client.get(f"{server.url}/drop")
    assert caught.value.request is not None
    for request in (response.request, caught.value.request):
        assert "Authorization" not in request.headers
    assert server.seen[0].token == TOKEN


def test_session_is_not_pickled(client: requests.Session) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(client)


def test_certificates_that_change_under_load_lose_no_request(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    pairs = [authority.client() for _ in range(6)]
    answers = [credential(pair=pair, seconds=10 * number) for number, pair in enumerate(pairs, start=1)]
    kube.answer(*answers)
    server.serials = {pair.serial for pair in pairs}
    with kube.session().mount_requests(requests.Session()) as client:

        def work(number: int) -> int:
            if number and number % 20 == 0:
                kube.clock.step(11)
            return client.get(server.url + PATH, timeout=20).status_code

        with ThreadPoolExecutor(8) as pool:
            statuses = set(pool.map(work, range(100)))
    assert statuses == {200}
    assert {seen.serial for seen in server.seen} == {pair.serial for pair in pairs[:5]}


def test_other_adapters_stay_as_they_are(kube: Kube) -> None:
    session = requests.Session()
    before = session.get_adapter("https://elsewhere/")
    kube.session().mount_requests(session)
    assert session.get_adapter("https://elsewhere/") is before
