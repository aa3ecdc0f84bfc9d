"""What the adapter for the official client promises beyond what all adapters do."""

from __future__ import annotations

import copy
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes.client import (
    ApiClient,
    ApiException,
    AuthenticationV1Api,
    Configuration,
    CoreV1Api,
    V1SelfSubjectReview,
)
from kubernetes.stream import stream
from kubernetes.watch import Watch

from keyferry import ClusterAuthError, ClusterSession
from support.api_server import ApiServer, running_proxy
from support.certificates import Authority
from support.kube import OTHER, TOKEN, Kube, credential, pair_fields

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

Make = Callable[[ClusterSession], Any]


def alone(cluster: ClusterSession) -> Any:
    """A client of the user's own, on the session's configuration."""
    return ApiClient(cluster.kubernetes_configuration())


MAKES: dict[str, Make] = {"client": ClusterSession.kubernetes_api_client, "configuration": alone}


@pytest.fixture(params=MAKES)
def make(request: pytest.FixtureRequest) -> Make:
    """How a client is made."""
    return MAKES[request.param]


@pytest.fixture
def client(kube: Kube) -> Iterator[Any]:
    """A client for the cluster."""
    with kube.session().kubernetes_api_client() as made:
        yield made


def review(client: Any) -> str:
    """Who the server takes the client for."""
    answer: Any = AuthenticationV1Api(client).create_self_subject_review(V1SelfSubjectReview())
    return str(answer.status.user_info.username)


def token_name(token: str) -> str:
    """What the server calls the owner of a token."""
    return f"token-{len(token)}"


def test_generated_methods_work(kube: Kube, make: Make) -> None:
    with make(kube.session()) as client:
        assert kube.runs() == 0
        assert review(client) == token_name(TOKEN)
        assert kube.runs() == 1


def test_thread_pool_of_the_client_works(kube: Kube, server: ApiServer, make: Make) -> None:
    with make(kube.session()) as client:
        api: Any = AuthenticationV1Api(client)
        waiting = [api.create_self_subject_review(V1SelfSubjectReview(), async_req=True) for _ in range(5)]
        for thread in waiting:
            thread.get()
    assert [seen.token for seen in server.seen] == [TOKEN] * 5
    assert kube.runs() == 1


# What a client of the session promises as every adapter does holds for its configuration alone, too.


def test_expired_token_is_replaced(kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN, seconds=100), credential("other"))
    server.tokens = {TOKEN, "other"}
    with alone(kube.session()) as client:
        assert review(client) == token_name(TOKEN)
        kube.clock.step(101)
        assert review(client) == token_name("other")


def test_refusal_is_an_exception_of_the_client(client: Any, server: ApiServer, kube: Kube) -> None:
    server.always = 401
    with pytest.raises(ApiException) as caught:
        review(client)
    assert caught.value.status == 401
    assert TOKEN not in repr(caught.value) + str(caught.value)
    assert (kube.runs(), len(server.seen)) == (2, 2)


def test_basic_auth_is_sent(kube: Kube, server: ApiServer, authority: Authority) -> None:
    kube.write(server.url, ca=authority.pem, user={"username": "jo", "password": "pässword"})
    server.logins = {"jo:pässword"}
    with alone(kube.session()) as client:
        review(client)


def test_user_without_a_credential_sends_none(
    kube: Kube, server: ApiServer, authority: Authority, make: Make
) -> None:
    kube.write(server.url, ca=authority.pem, user={})
    with make(kube.session()) as client, pytest.raises(ApiException, match="401"):
        review(client)
    assert [seen.all("Authorization") for seen in server.seen] == [[]]


def test_authority_that_did_not_sign_is_refused(kube: Kube, server: ApiServer) -> None:
    kube.write(server.url, ca=Authority().pem)
    with alone(kube.session()) as client, pytest.raises(Exception, match="certificate verify failed"):
        review(client)
    assert server.seen == []


def test_tls_server_name_is_what_counts(kube: Kube, authority: Authority) -> None:
    with ApiServer(authority, "api.internal") as server:
        server.tokens = {TOKEN}
        kube.write(server.url, ca=authority.pem, cluster={"tls-server-name": "api.internal"})
        with alone(kube.session()) as client:
            assert review(client) == token_name(TOKEN)
        kube.write(server.url, ca=authority.pem)
        with alone(kube.session()) as client, pytest.raises(Exception, match="certificate"):
            review(client)


def test_insecure_skips_the_check(kube: Kube, authority: Authority) -> None:
    with ApiServer(authority, "elsewhere") as server:
        server.tokens = {TOKEN}
        kube.write(server.url, cluster={"insecure-skip-tls-verify": True})
        with alone(kube.session()) as client, pytest.warns(match="Unverified HTTPS request"):
            assert review(client) == token_name(TOKEN)


def test_proxy_is_the_kubeconfigs(
    kube: Kube, server: ApiServer, authority: Authority, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with make(kube.session()) as client:
        review(client)
    with running_proxy() as proxy:
        kube.write(server.url, ca=authority.pem, cluster={"proxy-url": f"http://jo:p%40ss@{proxy.address}"})
        with make(kube.session()) as client:
            review(client)
        assert "proxy-authorization: basic am86cebzcw==" in proxy.told[0].lower()


def test_watch_goes_on_over_a_rotation_and_a_restart(client: Any, kube: Kube, server: ApiServer) -> None:
    class Things:
        """A generated API, of a server that has only one watch."""

        def list_things(self, **_: object) -> Any:
            """List things."""
            request = client.param_serialize("GET", "/watch", auth_settings=["BearerToken"])
            return client.call_api(*request).response

    def event(name: str) -> str:
        return json.dumps({"type": "ADDED", "object": {"metadata": {"name": name, "resourceVersion": "1"}}})

    kube.answer(credential(TOKEN, seconds=100), credential(OTHER))
    server.tokens = {TOKEN, OTHER}
    watch: Any = Watch(return_type="object")  # type: ignore[no-untyped-call] # the client has few types
    events = watch.stream(Things().list_things)
    server.push(event("one"))
    assert next(events)["object"]["metadata"]["name"] == "one"
    kube.clock.step(101)
    review(client)
    server.push(event("two"))
    assert next(events)["object"]["metadata"]["name"] == "two"
    server.end_watch()
    server.push(event("three"))
    assert next(events)["object"]["metadata"]["name"] == "three"
    events.close()
    assert [seen.token for seen in server.seen] == [TOKEN, OTHER, OTHER]


def test_client_reaches_its_cluster_only(client: Any, kube: Kube, authority: Authority) -> None:
    with ApiServer(authority, "localhost") as other:
        with pytest.raises(ClusterAuthError, match="connects only to its cluster, not to 'localhost'"):
            client.call_api("GET", f"https://localhost:{other.port}/")
        assert other.seen == []
    assert kube.runs() == 0


@pytest.mark.parametrize("location", ["https://localhost:{port}/", "https://[::", "ftp://127.0.0.1/"])
def test_redirect_elsewhere_is_an_error(
    client: Any, server: ApiServer, authority: Authority, location: str
) -> None:
    with ApiServer(authority, "localhost") as other:
        server.redirect_to = location.format(port=other.port)
        request = client.param_serialize("GET", "/redirect", auth_settings=["BearerToken"])
        with pytest.raises(ClusterAuthError, match="connects only to its cluster, not to '"):
            client.call_api(*request)
        assert other.seen == []


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_redirects_come_to_an_end(client: Any, server: ApiServer, method: str) -> None:
    server.redirect_to = f"{server.url}/redirect"
    request = client.param_serialize(method, "/redirect", header_params={}, auth_settings=["BearerToken"])
    assert client.call_api(*request).status == 302
    assert len(server.seen) == (10 if method == "GET" else 1)


@pytest.mark.parametrize("location", ["/moved", "//127.0.0.1:{port}/moved", "HTTPS://127.0.0.1:{port}/moved"])
def test_redirect_on_the_server_is_followed(client: Any, server: ApiServer, location: str) -> None:
    server.redirect_to = location.format(port=server.port)
    request = client.param_serialize("GET", "/redirect", auth_settings=["BearerToken"])
    assert client.call_api(*request).status == 200
    assert [seen.token for seen in server.seen] == [TOKEN, TOKEN]


def test_authorities_that_cannot_be_read_are_an_error(kube: Kube) -> None:
    kube.write("https://k", ca="nothing")
    with pytest.raises(ClusterAuthError, match="certificate-authority contains no valid PEM certificate"):
        kube.load().kubernetes_configuration()


def test_configuration_can_be_the_default(kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN, seconds=100), credential(OTHER))
    server.tokens = {TOKEN, OTHER}
    Configuration.set_default(kube.session().kubernetes_configuration())
    try:
        gc.collect()
        with ApiClient() as client:
            assert review(client) == token_name(TOKEN)
            kube.clock.step(101)
            review(client)
    finally:
        Configuration.set_default(None)
    assert [seen.token for seen in server.seen] == [TOKEN, OTHER]


def test_configuration_of_a_client_can_be_copied(client: Any) -> None:
    copied = copy.deepcopy(client.configuration)
    assert str(copied.api_key["authorization"]) == f"Bearer {TOKEN}"


def test_authorities_leave_memory_with_the_last_configuration(kube: Kube) -> None:
    before = len(os.listdir("/proc/self/fd"))
    configuration = kube.session().kubernetes_configuration()
    copied = copy.deepcopy(configuration)
    assert configuration.ssl_ca_cert == copied.ssl_ca_cert
    del configuration
    gc.collect()
    assert os.path.exists(str(copied.ssl_ca_cert))
    del copied
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_configuration_alone_does_no_certificates(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    pair = authority.client()
    kube.answer(credential(TOKEN, pair))
    with alone(kube.session()) as client, pytest.raises(ClusterAuthError, match="has a client certificate"):
        review(client)
    kube.write(server.url, ca=authority.pem, user=pair_fields(pair))
    with pytest.raises(ClusterAuthError, match="has a client certificate"):
        kube.session().kubernetes_configuration()
    assert server.seen == []


def test_configuration_alone_does_no_impersonation(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    kube.write(server.url, ca=authority.pem, user=kube.exec_user() | {"as": "jane"})
    with pytest.raises(ClusterAuthError, match="impersonates another user"):
        kube.session().kubernetes_configuration()
    assert kube.runs() == 0


def execute(client: Any) -> None:
    """Run a command in a pod, over a websocket, which the server of the tests does not speak."""
    stream(CoreV1Api(client).connect_get_namespaced_pod_exec, "pod", "default", command=["true"], stdout=True)


def test_websockets_have_the_token_and_the_authority(kube: Kube, server: ApiServer, make: Make) -> None:
    with make(kube.session()) as client, pytest.raises(ApiException, match="Handshake status 200"):
        execute(client)
    assert [seen.token for seen in server.seen] == [TOKEN]
    kube.write(server.url, ca=Authority().pem)
    with make(kube.session()) as client, pytest.raises(ApiException, match="certificate verify failed"):
        execute(client)


@pytest.mark.parametrize("why", ["has a client certificate", "impersonates another user"])
def test_websockets_are_refused_what_they_cannot_do(
    kube: Kube, server: ApiServer, authority: Authority, why: str
) -> None:
    if why.startswith("has"):
        kube.answer(credential(TOKEN, authority.client()))
    else:
        kube.write(server.url, ca=authority.pem, user=kube.exec_user() | {"as": "jane"})
    with kube.session().kubernetes_api_client() as client, pytest.raises(Exception, match=why):
        execute(client)
    assert server.seen == []


@pytest.mark.parametrize(("url", "host"), [("k:8080", "http://k:8080"), ("https://k/", "https://k")])
def test_host_is_the_server(kube: Kube, url: str, host: str) -> None:
    kube.write(url)
    assert kube.load().kubernetes_configuration().host == host
