"""The identity of the machine or service that a plugin of Azure runs on, from each of its sources, by keyferry-aks."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.azure import managed_identity
from support.azure_cloud import ENTRA_TOKEN, SERVER_ID, in_turn
from support.fake_cloud import Authority, Handler, Received, Reply, serving
from support.reference import ask_cluster

TOKEN = Reply(200, {"access_token": ENTRA_TOKEN, "expires_on": "1893456000"})
STATUS = {"token": ENTRA_TOKEN, "expirationTimestamp": "2030-01-01T00:00:00Z"}
BY_ID = ("--client-id", "c")


def ask(env: dict[str, str], *args: str) -> dict[str, str]:
    """The token of a run with these variables."""
    return ask_cluster("aks", args=["-l", "msi", "--server-id", SERVER_ID, *args], env=env).login_status


def failure(env: dict[str, str], *args: str) -> str:
    """The error of such a run, which shows no secret."""
    said = ask_cluster("aks", args=["-l", "msi", "--server-id", SERVER_ID, *args], env=env).failure
    assert "hidden" not in said
    return said


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
    ("args", "named"),
    [
        ((), {}),
        (BY_ID, {"client_id": "c"}),
        (("--identity-resource-id", "/subscriptions/r"), {"mi_res_id": "/subscriptions/r"}),
    ],
    ids=["system", "client ID", "resource ID"],
)
def test_app_service_answers(args: tuple[str, ...], named: dict[str, str]) -> None:
    """With the header that proves one runs inside."""
    query = {"api-version": "2019-08-01", "resource": SERVER_ID, **named}
    with serving(expect("GET", {"x-identity-header": "hidden"}, query)) as server:
        assert ask({"IDENTITY_ENDPOINT": f"{server.url}/token", "IDENTITY_HEADER": "hidden"}, *args) == STATUS


@pytest.mark.parametrize(("args", "default"), [(BY_ID, "d"), ((), "c")], ids=["given", "default"])
def test_machine_learning_answers(args: tuple[str, ...], default: str) -> None:
    """With the client given, or else the workspace's default."""
    query = {"api-version": "2017-09-01", "resource": SERVER_ID, "clientid": "c"}
    with serving(expect("GET", {"secret": "hidden"}, query)) as server:
        env = {
            "MSI_ENDPOINT": f"{server.url}/token",
            "MSI_SECRET": "hidden",
            "DEFAULT_IDENTITY_CLIENT_ID": default,
        }
        assert ask(env, *args) == STATUS
        assert "client ID" in failure(env, "--identity-resource-id", "/r")


def test_cloud_shell_answers() -> None:
    """To a form, and for the user alone."""
    with serving(expect("POST", {"metadata": "true"}, {}, {"resource": SERVER_ID})) as server:
        env = {"MSI_ENDPOINT": f"{server.url}/token"}
        assert ask(env) == STATUS
        assert "does not support user-assigned" in failure(env, *BY_ID)


def test_service_fabric_is_known_by_its_thumbprint(tmp_path: Path) -> None:
    """The secret is sent to that certificate alone, whoever signed it."""
    query = {"api-version": "2019-07-01-preview", "resource": SERVER_ID}
    handler = expect("GET", {"secret": "hidden", "accept": "application/json"}, query)
    with serving(handler, Authority(tmp_path).context("fabric")) as server:
        pem = ssl.get_server_certificate(("127.0.0.1", server.port))
        found = hashlib.sha1(ssl.PEM_cert_to_DER_cert(pem), usedforsecurity=False).hexdigest()
        env = {
            "IDENTITY_ENDPOINT": f"{server.url}/token",
            "IDENTITY_HEADER": "hidden",
            "IDENTITY_SERVER_THUMBPRINT": found.upper(),
        }
        assert ask(env) == STATUS
        before = len(server.received)
        assert "IDENTITY_SERVER_THUMBPRINT" in failure(env | {"IDENTITY_SERVER_THUMBPRINT": "0" * 40})
        assert "does not support user-assigned" in failure(env, *BY_ID)
        for endpoint in ("http://x/", f"https://u:hidden@127.0.0.1:{server.port}/"):
            said = failure(env | {"IDENTITY_ENDPOINT": endpoint})
            assert "IDENTITY_ENDPOINT: is not an https:// URL" in said
        assert len(server.received) == before
    assert f"{server.url}/token: cannot be reached" in failure(env)


def test_a_secret_of_the_environment_is_masked_in_a_refusal() -> None:
    """Even if the service quotes it."""
    echo = Reply(403, {"error": "no", "error_description": "header hidden was wrong"})
    with serving(in_turn(echo)) as server:
        env = {"IDENTITY_ENDPOINT": server.url, "IDENTITY_HEADER": "hidden"}
        assert "was wrong" in failure(env)


# The rest is asked in this process, since the paths of Azure Arc's agent are those of its machines.


def ask_arc(url: str, *, client_id: str = "", name: str = "IDENTITY_ENDPOINT") -> str:
    """The token of a run on a machine of Azure Arc."""
    return managed_identity.request_identity_token(
        managed_identity.IdentityRequest(
            resource=SERVER_ID,
            identity=managed_identity.Identity(client_id=client_id),
            environ={name: url, "IMDS_ENDPOINT": url},
            deadline=Deadline(20),
        )
    ).value


def arc_server(path: str) -> Handler:
    """Arc's agent: it names a file, and then wants its content."""

    def check(received: Received) -> Reply:
        assert received.headers["authorization"] == "Basic key content"
        assert received.headers["metadata"] == "true"
        return TOKEN

    return in_turn(Reply(401, headers={"WWW-Authenticate": f"Basic realm={path}"}), check)


def test_arc_wants_to_see_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which proves that one may read it."""
    monkeypatch.setattr(managed_identity, "ARC_KEYS", str(tmp_path))
    (tmp_path / "x.key").write_text("key content")
    with serving(arc_server(f"{tmp_path}/x.key")) as server:
        assert ask_arc(server.url) == ENTRA_TOKEN


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
    monkeypatch.setattr(managed_identity, "ARC_KEYS", str(folder))
    (folder / "deep").mkdir(parents=True)
    for path in (tmp_path / "x.key", folder / "deep" / "x.key", folder / "x.txt"):
        path.write_text("other")
    (folder / "long.key").write_text("x" * 4097)
    (folder / "empty.key").write_text("")
    (folder / "lines.key").write_text("a\r\nX-Other: b")
    with serving(arc_server(f"{folder}/{name}" if not name.startswith("/") else name)) as server:
        with pytest.raises(ProvideError):
            ask_arc(server.url)
        assert len(server.received) == 1


def test_arc_is_asked_where_its_variables_or_its_agent_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables name it, or its program is there; it has no user-assigned identities."""
    agent = tmp_path / "himds"
    monkeypatch.setattr(managed_identity, "ARC_AGENT", str(agent))
    refusal = "Azure Arc does not support user-assigned"
    with pytest.raises(ProvideError, match=refusal):
        ask_arc("http://127.0.0.1:1", client_id="c")
    with serving(in_turn(TOKEN)) as server:
        machine = "AZURE_POD_IDENTITY_AUTHORITY_HOST"
        assert ask_arc(server.url, client_id="c", name=machine) == ENTRA_TOKEN
        agent.write_text("")
        with pytest.raises(ProvideError, match=refusal):
            ask_arc(server.url, client_id="c", name=machine)
