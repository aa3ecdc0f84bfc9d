"""Managed identity from each of its sources, on real sockets."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import pytest

from keyferry.sdk import Deadline, HttpError, ProvideError
from keyferry_plugins.azure import managed_identity
from keyferry_plugins.azure.managed_identity import Identity, IdentityRequest, request_identity_token
from support.azure_cloud import ENTRA_TOKEN, in_turn
from support.fake_cloud import Authority, Handler, Received, Reply, serving

RESOURCE = "https://containerregistry.azure.net"
TOKEN = Reply(200, {"access_token": ENTRA_TOKEN, "expires_on": "1893456000"})


def question(environ: dict[str, str], identity: Identity = Identity()) -> IdentityRequest:
    """A question for a registry's token."""
    return IdentityRequest(resource=RESOURCE, identity=identity, environ=environ, deadline=Deadline(20))


def expect(
    method: str, headers: dict[str, str], query: dict[str, str], form: dict[str, str] | None = None
) -> Handler:
    """A source that gives the token for exactly one request."""

    def answer(received: Received) -> Reply:
        assert (received.method, received.path) == (method, "/token")
        assert received.query == query
        for name, value in headers.items():
            assert received.headers[name] == value
        assert (received.form if form is not None else {}) == (form or {})
        return TOKEN

    return answer


@pytest.mark.parametrize(
    ("identity", "named"),
    [
        (Identity(), {}),
        (Identity(client_id="c"), {"client_id": "c"}),
        (Identity.parse("/subscriptions/r"), {"mi_res_id": "/subscriptions/r"}),
    ],
)
def test_app_service_answers(identity: Identity, named: dict[str, str]) -> None:
    """With the header that proves one runs inside."""
    query = {"api-version": "2019-08-01", "resource": RESOURCE, **named}
    with serving(expect("GET", {"x-identity-header": "hdr"}, query)) as server:
        environ = {"IDENTITY_ENDPOINT": f"{server.url}/token", "IDENTITY_HEADER": "hdr"}
        token = request_identity_token(question(environ, identity))
    assert (token.value, token.expires_at) == (ENTRA_TOKEN, 1893456000)


@pytest.mark.parametrize(("client", "default"), [("c", "d"), ("", "c")])
def test_machine_learning_answers(client: str, default: str) -> None:
    """With the client given, or else the workspace's default."""
    query = {"api-version": "2017-09-01", "resource": RESOURCE, "clientid": "c"}
    with serving(expect("GET", {"secret": "sec"}, query)) as server:
        environ = {
            "MSI_ENDPOINT": f"{server.url}/token",
            "MSI_SECRET": "sec",
            "DEFAULT_IDENTITY_CLIENT_ID": default,
        }
        assert request_identity_token(question(environ, Identity(client_id=client))).value == ENTRA_TOKEN
        with pytest.raises(ProvideError, match="client ID"):
            request_identity_token(question(environ, Identity(resource_id="/r")))


def test_cloud_shell_answers() -> None:
    """To a form, and for the user alone."""
    with serving(expect("POST", {"metadata": "true"}, {}, {"resource": RESOURCE})) as server:
        environ = {"MSI_ENDPOINT": f"{server.url}/token"}
        assert request_identity_token(question(environ)).value == ENTRA_TOKEN
        with pytest.raises(ProvideError, match="does not support user-assigned"):
            request_identity_token(question(environ, Identity(client_id="c")))


def test_service_fabric_is_known_by_its_thumbprint(tmp_path: Path) -> None:
    """The secret is sent to that certificate alone, whoever signed it."""
    query = {"api-version": "2019-07-01-preview", "resource": RESOURCE}
    handler = expect("GET", {"secret": "sec", "accept": "application/json"}, query)
    with serving(handler, Authority(tmp_path).context("fabric")) as server:
        pem = ssl.get_server_certificate(("127.0.0.1", server.port))
        found = hashlib.sha1(ssl.PEM_cert_to_DER_cert(pem), usedforsecurity=False).hexdigest()
        environ = {
            "IDENTITY_ENDPOINT": f"{server.url}/token",
            "IDENTITY_HEADER": "sec",
            "IDENTITY_SERVER_THUMBPRINT": found.upper(),
        }
        assert request_identity_token(question(environ)).value == ENTRA_TOKEN
        before = len(server.received)
        with pytest.raises(HttpError, match="IDENTITY_SERVER_THUMBPRINT"):
            request_identity_token(question({**environ, "IDENTITY_SERVER_THUMBPRINT": "0" * 40}))
        assert len(server.received) == before
        with pytest.raises(ProvideError, match="does not support user-assigned"):
            request_identity_token(question(environ, Identity(client_id="c")))
        for endpoint in ("http://x/", f"https://u:p@127.0.0.1:{server.port}/"):
            with pytest.raises(HttpError, match="IDENTITY_ENDPOINT: is not an https:// URL"):
                request_identity_token(question({**environ, "IDENTITY_ENDPOINT": endpoint}))
        assert len(server.received) == before


def test_service_fabric_that_is_gone_is_an_error() -> None:
    """With the place, and without the secret."""
    environ = {
        "IDENTITY_ENDPOINT": "https://127.0.0.1:1/token",
        "IDENTITY_HEADER": "hidden",
        "IDENTITY_SERVER_THUMBPRINT": "0",
    }
    with pytest.raises(HttpError, match=r"https://127.0.0.1:1/token: cannot be reached") as caught:
        request_identity_token(question(environ))
    assert "hidden" not in str(caught.value)


def arc_server(path: str, key: str = "key content") -> Handler:
    """Arc's agent: it names a file, and then wants its content."""

    def check(received: Received) -> Reply:
        assert received.headers["authorization"] == f"Basic {key}"
        assert received.headers["metadata"] == "true"
        return TOKEN

    return in_turn(Reply(401, headers={"WWW-Authenticate": f"Basic realm={path}"}), check)


def ask_arc(monkeypatch: pytest.MonkeyPatch, url: str, folder: Path) -> str:
    """Ask an agent of Arc, whose key files are in *folder*; gives the token."""
    monkeypatch.setattr(managed_identity, "ARC_KEYS", str(folder))
    return request_identity_token(question({"IDENTITY_ENDPOINT": url, "IMDS_ENDPOINT": url})).value


def test_arc_wants_to_see_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which proves that one may read it."""
    (tmp_path / "x.key").write_text("key content")
    with serving(arc_server(f"{tmp_path}/x.key")) as server:
        assert ask_arc(monkeypatch, server.url, tmp_path) == ENTRA_TOKEN


@pytest.mark.parametrize(
    "name",
    [
        "../x.key",
        "deep/x.key",
        "x.txt",
        "/etc/passwd",
        "missing.key",
        "long.key",
        "empty.key",
        "lines.key",
        "",
    ],
)
def test_arc_cannot_make_one_read_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing is sent of a file that is elsewhere, is no key, or is too long."""
    folder = tmp_path / "tokens"
    (folder / "deep").mkdir(parents=True)
    for path in (tmp_path / "x.key", folder / "deep" / "x.key", folder / "x.txt"):
        path.write_text("other")
    (folder / "long.key").write_text("x" * 4097)
    (folder / "empty.key").write_text("")
    (folder / "lines.key").write_text("a\r\nX-Other: b")
    with serving(arc_server(f"{folder}/{name}" if not name.startswith("/") else name)) as server:
        with pytest.raises(ProvideError):
            ask_arc(monkeypatch, server.url, folder)
        assert len(server.received) == 1


def test_arc_is_asked_where_its_variables_or_its_agent_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables name it, or its program is there; it has no user-assigned identities."""
    agent = tmp_path / "himds"
    monkeypatch.setattr(managed_identity, "ARC_AGENT", str(agent))
    both = {"IDENTITY_ENDPOINT": "http://127.0.0.1:1/x", "IMDS_ENDPOINT": "http://127.0.0.1:1"}
    with pytest.raises(ProvideError, match="Azure Arc does not support user-assigned"):
        request_identity_token(question(both, Identity(client_id="c")))
    with serving(in_turn(TOKEN)) as server:
        machine = {"AZURE_POD_IDENTITY_AUTHORITY_HOST": server.url}
        assert request_identity_token(question(machine, Identity(client_id="c"))).value == ENTRA_TOKEN
        agent.write_text("")
        with pytest.raises(ProvideError, match="Azure Arc does not support user-assigned"):
            request_identity_token(question(machine, Identity(client_id="c")))


def test_a_secret_of_the_environment_is_masked_in_a_refusal() -> None:
    """Even if the service quotes it."""
    echo = Reply(403, {"error": "no", "error_description": "header hidden was wrong"})
    with serving(in_turn(echo)) as server:
        asked = question({"IDENTITY_ENDPOINT": server.url, "IDENTITY_HEADER": "hidden"})
        with pytest.raises(ProvideError) as caught:
            request_identity_token(asked)
    assert "hidden" not in str(caught.value)
    assert "was wrong" in str(caught.value)
