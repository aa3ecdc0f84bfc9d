"""One request to a cluster, and a token of a service account from it."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from keyferry import ClusterSession
from keyferry._core.jwt_claims import read_claims
from keyferry.clusters.api_calls import ApiProblem, BoundPod, IssuedToken, request_token
from keyferry.errors import Kind
from support.api_server import ApiServer, running_proxy
from support.certificates import Authority, Pair
from support.kube import OTHER, TOKEN, Kube, credential, pair_fields
from support.kube_commands import keyferry_kube
from support.kubernetes_api import ISSUER, KubernetesApi, account, pod

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


def test_a_certificate_of_the_plugin_is_shown(kube: Kube, server: ApiServer, authority: Authority) -> None:
    pair = authority.client("carol")
    server.serials, server.tokens = {pair.serial}, set()
    kube.answer(credential(pair=pair))
    assert keyferry_kube(kube, "raw", "/version").returncode == 0
    assert server.seen[0].serial == pair.serial


def test_a_server_whose_certificate_has_only_a_common_name_gets_no_credential(
    kube: Kube, authority: Authority
) -> None:
    with ApiServer(authority, pair=authority.server_called("localhost")) as server:
        kube.write(f"https://localhost:{server.port}", ca=authority.pem)
        done = keyferry_kube(kube, "raw", "/version")
        assert (done.returncode, server.seen) == (5, [])
    assert (
        "its certificate is not trusted: Hostname mismatch, certificate is not valid for 'localhost'; "
        "only its subject alternative names count, a common name does not; have it issued with this name among "
        "its subject alternative names, or set tls-server-name to one of its names"
    ) in done.stderr


def test_a_key_that_cannot_be_used_is_said_before_any_server_is_asked(
    kube: Kube, authority: Authority
) -> None:
    """As in client-go: a server that is down, or silent, does not hide what is wrong here."""
    pair = Pair(authority.client().certificate, authority.client().key)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{nobody.getsockname()[1]}"
        kube.write(url, ca=authority.pem, user=pair_fields(pair))
        done = keyferry_kube(kube, "raw", "/version")
    assert (done.returncode, "cannot be reached" in done.stderr) == (3, False), done.stderr
    assert "the client certificate and key cannot be used" in done.stderr


@pytest.mark.parametrize("command", [("raw", "/version"), ("whoami",)], ids=["raw", "whoami"])
def test_one_request_shows_one_credential_though_it_has_expired_already(
    kube: Kube, server: ApiServer, authority: Authority, command: tuple[str, ...]
) -> None:
    """The plugin is run once; its token and its certificate go together."""
    first, second = authority.client(), authority.client()
    kube.answer(credential(TOKEN, first, seconds=0), credential(OTHER, second, seconds=0))
    server.tokens, server.serials, server.needs_both = {TOKEN}, {first.serial}, True
    done = keyferry_kube(kube, *command)
    assert (done.returncode, kube.runs()) == (0, 1), done.stderr
    assert [(seen.token, seen.serial) for seen in server.seen] == [(TOKEN, first.serial)]


def test_a_second_try_shows_the_second_credential_and_no_part_of_the_first(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    first, second = authority.client(), authority.client()
    kube.answer(credential(TOKEN, first, seconds=0), credential(OTHER, second, seconds=0))
    server.tokens, server.serials, server.needs_both = {OTHER}, {second.serial}, True
    assert keyferry_kube(kube, "raw", "/version").returncode == 0
    assert [(seen.token, seen.serial) for seen in server.seen] == [
        (TOKEN, first.serial),
        (OTHER, second.serial),
    ]
    assert kube.runs() == 2


@pytest.mark.parametrize("command", [("raw", "/version"), ("whoami",), ("token",)], ids=" ".join)
def test_a_token_that_cannot_be_sent_is_the_plugins_failure(
    kube: Kube, server: ApiServer, command: tuple[str, ...]
) -> None:
    kube.answer(credential(f"{TOKEN}\nX-Injected: 1"))
    done = keyferry_kube(kube, *command)
    assert (done.returncode, done.stdout, server.seen) == (4, "", [])
    assert "the token contains a control character and cannot be sent" in done.stderr
    assert TOKEN not in done.stderr


def test_what_the_kubeconfig_has_and_cannot_be_used_is_no_refusal(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    """Nothing was sent, so that no server can have refused it."""
    pair = authority.client()
    user: dict[str, Mapping[str, object]] = {
        "the token contains a control character": {"token": f"{TOKEN}\n1"},
        "the value of Impersonate-User contains a control character": {"token": TOKEN, "as": "a\nb"},
        "the client certificate and key cannot be used": pair_fields(Pair(pair.certificate, "no key")),
    }
    for words, fields in user.items():
        kube.write(server.url, ca=authority.pem, user=fields)
        done = keyferry_kube(kube, "raw", "/version")
        assert (done.returncode, done.stdout, server.seen) == (3, "", [])
        assert words in done.stderr
    kube.write(server.url, ca="nobody")
    done = keyferry_kube(kube, "raw", "/version")
    assert (done.returncode, server.seen) == (3, [])
    assert "certificate-authority contains no valid PEM certificate" in done.stderr


def test_a_server_that_is_not_there(kube: Kube) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        kube.write(f"https://127.0.0.1:{unused.getsockname()[1]}")
        done = keyferry_kube(kube, "raw", "/version")
    assert done.returncode == 6
    assert "cannot be reached: connection refused" in done.stderr


def test_a_proxy_of_another_kind_is_refused(kube: Kube, server: ApiServer) -> None:
    kube.write(server.url, cluster={"proxy-url": "socks5://127.0.0.1:1"})
    done = keyferry_kube(kube, "raw", "/version")
    assert (done.returncode, server.seen) == (5, [])
    assert "the proxy in proxy-url: is not a URL of the form http://" in done.stderr
    assert "other kinds, such as socks5://, are not" in done.stderr


# The name of a server that only the tests' proxies can find.
REMOTE = "api.cluster.invalid"


@pytest.fixture
def remote(kube: Kube, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server that is not this machine by its name, and an environment without proxies."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with ApiServer(authority, REMOTE) as running:
        running.tokens = {TOKEN}
        url = f"https://{REMOTE}:{running.port}"
        kube.write(url, ca=authority.pem)
        yield url


@pytest.mark.parametrize("exceptions", ["", "*"])
def test_the_kubeconfigs_proxy_goes_before_the_environments(
    kube: Kube, remote: str, authority: Authority, exceptions: str
) -> None:
    """And NO_PROXY says nothing of it, as in client-go."""
    with running_proxy() as own, running_proxy() as other:
        kube.write(remote, ca=authority.pem, cluster={"proxy-url": f"http://{own.address}"})
        variables = {"HTTPS_PROXY": f"http://{other.address}", "NO_PROXY": exceptions}
        done = keyferry_kube(kube, "raw", "/version", **variables)
        assert (len(own.told), other.told) == (1, [])
    assert (done.returncode, done.stderr) == (0, "")


@contextlib.contextmanager
def endless_server(head: bytes, most: int) -> Iterator[tuple[int, list[int]]]:
    """A server that sends a head and then a body, up to *most* bytes: its port, and the pieces that were taken."""
    data = b"a" * (1 << 16)
    chunk = b"10000\r\n" + data + b"\r\n" if b"chunked" in head else data
    taken: list[int] = []

    def serve() -> None:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.recv(65536)
            client.sendall(head)
            while sum(taken) < most:
                client.sendall(chunk)
                taken.append(len(data))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1]), taken
        thread.join()


@pytest.mark.parametrize("head", ["Transfer-Encoding: chunked", "Connection: close"])
@pytest.mark.parametrize("status", ["201 Created", "403 Forbidden"])
def test_a_body_without_an_end_is_read_no_further_than_the_limit(kube: Kube, status: str, head: str) -> None:
    """What whoami reads into memory has a bound, whatever the server goes on to send."""
    most = 128 << 20
    with endless_server(f"HTTP/1.1 {status}\r\n{head}\r\n\r\n".encode(), most) as (port, taken):
        kube.write(f"http://127.0.0.1:{port}")
        done = keyferry_kube(kube, "whoami")
    assert done.returncode == 5
    assert len(done.stderr) < 1000
    assert 0 < sum(taken) < most


def test_a_port_that_is_none_is_the_kubeconfigs_fault(kube: Kube) -> None:
    kube.write("https://127.0.0.1:99999")
    done = keyferry_kube(kube, "raw", "/version")
    assert (done.returncode, done.stdout) == (3, "")
    assert "the server has a port that is not in 1-65535" in done.stderr


AUDIENCE = "registry.example"


@pytest.fixture
def api(authority: Authority) -> Iterator[KubernetesApi]:
    """A server with a pod and its account; bob may request tokens in shop."""
    with KubernetesApi(authority) as running:
        running.add_user(TOKEN, "bob")
        running.permit(TOKEN, "create", "serviceaccounts/token", "shop")
        running.add(pod(serviceAccountName="puller"), account("puller"))
        yield running


@pytest.fixture
def session(api: KubernetesApi, tmp_path: Path, authority: Authority) -> ClusterSession:
    """A session of bob."""
    kube = Kube(tmp_path)
    kube.write(api.url, ca=authority.pem, user={"token": TOKEN})
    return kube.load()


def uid_of(api: KubernetesApi, resource: str, name: str) -> str:
    """Return the UID of an object in shop."""
    metadata = api.objects["", resource, "shop", name]["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["uid"])


def test_a_token_is_for_the_audience_and_bound_to_the_pod(
    api: KubernetesApi, session: ClusterSession
) -> None:
    """The claims are those of a kubelet's token."""
    uid = uid_of(api, "pods", "web")
    bound = BoundPod(name="web", uid=uid)
    account_uid = uid_of(api, "serviceaccounts", "puller")
    found = request_token(session, "shop", "puller", audience=AUDIENCE, pod=bound, account_uid=account_uid)
    assert isinstance(found, IssuedToken)
    claims = read_claims(found.token, is_strict=False)
    assert claims["aud"] == [AUDIENCE]
    assert claims["sub"] == "system:serviceaccount:shop:puller"
    details = claims["kubernetes.io"]
    assert isinstance(details, dict)
    assert details["pod"] == {"name": "web", "uid": uid}
    assert found.expires.endswith("Z")
    assert found.token not in repr(found)


def test_without_an_audience_the_server_chooses_its_own(session: ClusterSession) -> None:
    """No audience gives a token for the API server, unbound, of the requested duration."""
    found = request_token(session, "shop", "puller", expiration_seconds=600)
    assert isinstance(found, IssuedToken)
    claims = read_claims(found.token, is_strict=False)
    assert claims["aud"] == [ISSUER]
    assert (int(str(claims["exp"])) - int(str(claims["iat"]))) == 600


@pytest.mark.parametrize(
    ("namespace", "name", "bound", "seconds", "kind", "status", "said"),
    [
        pytest.param(
            "other",
            "puller",
            None,
            None,
            Kind.REFUSED,
            403,
            "no permission to create serviceaccounts/token in other: "
            'serviceaccounts "puller" is forbidden: User "bob" cannot create resource "serviceaccounts/token" '
            'in API group "" in the namespace "other"',
            id="not permitted",
        ),
        pytest.param(
            "shop",
            "nobody",
            None,
            None,
            Kind.NOT_FOUND,
            404,
            'cannot create serviceaccounts/token in shop: not found: serviceaccounts "nobody" not found',
            id="no such account",
        ),
        pytest.param(
            "shop",
            "puller",
            BoundPod(name="web", uid="other-uid"),
            None,
            Kind.ERROR,
            409,
            "does not match the UID in record",
            id="another UID",
        ),
        pytest.param(
            "shop",
            "puller",
            BoundPod(name="else"),
            None,
            Kind.ERROR,
            400,
            "running with different serviceaccount name",
            id="a pod of another account",
        ),
        pytest.param(
            "shop",
            "puller",
            None,
            599,
            Kind.ERROR,
            422,
            "may not specify a duration less than 10 minutes",
            id="too short",
        ),
    ],
)
def test_a_refusal_has_the_rule_that_is_missing_and_the_servers_words(
    api: KubernetesApi,
    session: ClusterSession,
    namespace: str,
    name: str,
    bound: BoundPod | None,
    seconds: int | None,
    kind: Kind,
    status: int,
    said: str,
) -> None:
    api.add(pod("else"), account("puller", "other"))
    found = request_token(session, namespace, name, pod=bound, expiration_seconds=seconds)
    assert isinstance(found, ApiProblem)
    assert (found.kind, found.status) == (kind, status)
    assert said in str(found)
    assert api.issued == []


def test_an_unknown_user_is_refused(api: KubernetesApi, session: ClusterSession) -> None:
    api.users.clear()
    found = request_token(session, "shop", "puller")
    assert isinstance(found, ApiProblem)
    assert found.kind is Kind.REFUSED
    assert str(found) == (
        "cannot create serviceaccounts/token in shop: the server responded 401: Unauthorized"
    )


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"kind": "TokenRequest"}', b'{"kind": "Status", "status": {"token": "t0ken"}}']
)
def test_a_response_without_a_token_is_a_problem_and_is_not_quoted(
    api: KubernetesApi, session: ClusterSession, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of such a response is shown: it may hold a token."""
    monkeypatch.setattr(api, "respond", lambda _: (201, body))
    found = request_token(session, "shop", "puller")
    assert isinstance(found, ApiProblem)
    assert found.kind is Kind.CONTENT
    assert str(found).startswith("cannot create serviceaccounts/token in shop: the response is not a ")
    assert "t0ken" not in str(found)
