"""keyferry-oidc against a real OpenID Connect server, over TLS, the user's part included."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keyferry_plugins.signing.jose import read_claims
from support.fake_cloud import Authority
from support.oidc_server import OidcServer
from support.reference import CLUSTER_GROUP, Answer, ask_cluster, launcher

PATIENCE_SECONDS = 60


def words(server: OidcServer, client: str, *args: str) -> list[str]:
    """The arguments of an exec entry for a client of the server."""
    start = ["get-token", f"--oidc-issuer-url={server.issuer}", f"--oidc-client-id={client}"]
    return [*start, "--certificate-authority", str(server.authority.bundle), *args]


def as_client(server: OidcServer, client: str, secret: str, *args: str) -> Answer:
    """Ask as a client that acts for itself."""
    grant = ["--grant-type=client-credentials", f"--oidc-client-secret={secret}", "--oidc-use-access-token"]
    return ask_cluster("oidc", args=words(server, client, *grant, *args))


@contextmanager
def at_a_terminal(args: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The plugin while it waits for its user; what it says is read from its standard error."""
    info = {"kind": "ExecCredential", "apiVersion": f"{CLUSTER_GROUP}/v1", "spec": {"interactive": True}}
    env = {"PATH": os.environ["PATH"], "KUBERNETES_EXEC_INFO": json.dumps(info)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*launcher("oidc"), *args], stdin=pipe, stdout=pipe, stderr=pipe, env=env, text=True
    ) as plugin:
        try:
            yield plugin
        finally:
            plugin.kill()


def shown_url(plugin: subprocess.Popen[str], mark: str) -> str:
    """The URL with *mark* in it that the plugin tells its user to open."""
    assert plugin.stderr is not None
    said = ""
    for line in plugin.stderr:
        said += line
        if "https://" in line and mark in line:
            return line.strip("() \n").rpartition(" ")[2]
    raise AssertionError(f"no URL with {mark!r} in: {said}")


def finish(plugin: subprocess.Popen[str], typed: str = "") -> Answer:
    """What the plugin answers once its user is done."""
    stdout, stderr = plugin.communicate(typed, timeout=PATIENCE_SECONDS)
    return Answer(plugin.returncode, stdout, stderr)


def log_in_by_device(server: OidcServer, user: str, *args: str) -> Answer:
    """Run a device login, be its user, and give the plugin's answer."""
    scopes = "--oidc-extra-scope=offline_access"
    with at_a_terminal(words(server, "cli", "--grant-type=device-code", scopes, *args)) as plugin:
        server.visit(shown_url(plugin, "user_code="), user)
        return finish(plugin)


@pytest.mark.parametrize(("client", "secret"), [("svc", "svc-secret"), ("post", "post-secret")])
def test_a_client_gets_an_access_token(oidc: OidcServer, client: str, secret: str) -> None:
    """A JSON web token for the cluster's audience, and its own end as the answer's."""
    answer = as_client(oidc, client, secret, "--oidc-extra-scope=api")
    claims = read_claims(answer.login_status["token"])
    assert (claims["iss"], claims["aud"], claims["client_id"]) == (oidc.issuer, "kubernetes", client)
    assert isinstance(claims["exp"], int)
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(claims["exp"]))
    assert answer.login_status["expirationTimestamp"] == expiry


def test_what_a_client_may_not_have_is_refused_in_the_servers_words(oidc: OidcServer) -> None:
    """A wrong secret, a scope it has no right to, and an ID token, which is for people."""
    wrong = as_client(oidc, "svc", "wrong-secret")
    assert "invalid_client (client authentication failed)" in wrong.stderr
    assert "wrong-secret" not in wrong.stderr
    # Upstream asks for openid with every grant, and this server refuses a client that.
    assert (
        "invalid_scope"
        in as_client(oidc, "svc", "svc-secret", "--compat", "--token-cache-storage=none").stderr
    )
    unknown = as_client(oidc, "nobody", "svc-secret")
    assert "invalid_client" in unknown.stderr
    assert {wrong.status, unknown.status} == {1}


def test_a_user_logs_in_by_a_code_and_stays_so_by_refresh_tokens(oidc: OidcServer, tmp_path: Path) -> None:
    """The page is opened elsewhere; the token is the user's; each refresh spends the token before it."""
    cache = ["--token-cache-dir", str(tmp_path / "cache")]
    first = log_in_by_device(oidc, "alice", *cache)
    claims = read_claims(first.login_status["token"])
    assert (claims["sub"], claims["aud"], claims["groups"]) == ("alice", "cli", ["devs"])

    args = words(oidc, "cli", "--grant-type=device-code", "--oidc-extra-scope=offline_access", *cache)
    assert ask_cluster("oidc", args=args).login_status == first.login_status
    (path,) = (found for found in (tmp_path / "cache").iterdir() if found.suffix != ".lock")
    spent = path.read_bytes()
    refreshed = [ask_cluster("oidc", args=[*args, "--force-refresh"]) for _ in range(2)]
    assert [read_claims(each.login_status["token"])["sub"] for each in refreshed] == ["alice", "alice"]
    assert json.loads(spent)["refresh_token"] != json.loads(path.read_bytes())["refresh_token"]

    # A refresh token that was used before is refused, and the user is asked to log in again.
    path.write_bytes(spent)
    again = log_in_by_device(oidc, "bob", *cache, "--force-refresh")
    assert read_claims(again.login_status["token"])["sub"] == "bob"


def test_a_user_logs_in_by_pasting_where_the_browser_ended(oidc: OidcServer) -> None:
    """The server checks the challenge, the plugin the state and the nonce."""
    redirect = "--oidc-redirect-url=http://127.0.0.1/callback"
    with at_a_terminal(words(oidc, "web", "--grant-type=authcode-keyboard", redirect)) as plugin:
        ended = oidc.visit(shown_url(plugin, "code_challenge="), "carol")
        assert ended.startswith("http://127.0.0.1/callback?code=")
        answer = finish(plugin, f"{ended}\n")
    assert read_claims(answer.login_status["token"])["sub"] == "carol"
    assert ended.partition("code=")[2].partition("&")[0] not in answer.stderr


def test_a_server_that_is_not_vouched_for_gets_no_secret(oidc: OidcServer, tmp_path: Path) -> None:
    """Without the right authority nothing is sent; with the right to ignore that, all works."""
    other = Authority(tmp_path)
    args = [f"--oidc-issuer-url={oidc.issuer}", "--oidc-client-id=svc", "--oidc-client-secret=svc-secret"]
    args += [
        "--grant-type=client-credentials",
        "--oidc-use-access-token",
        f"--certificate-authority={other.bundle}",
    ]
    refused = ask_cluster("oidc", args=args)
    assert refused.status == 1
    assert "its certificate is not trusted" in refused.stderr
    assert ask_cluster("oidc", args=[*args, "--insecure-skip-tls-verify"]).login_status["token"]
    system = {"SSL_CERT_FILE": str(oidc.authority.bundle)}
    assert ask_cluster("oidc", args=args[:-1], env=system).login_status["token"]
