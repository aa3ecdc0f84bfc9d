"""Slow, endless and talkative servers and programs: nothing waits past its deadline, nothing secret is shown."""

import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from urllib.parse import unquote_plus

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import ONCE, Retry
from keyferry_plugins.google.adc import token_from
from keyferry_plugins.google.calls import Calls
from keyferry_plugins.google.credential_file import CredentialFile
from keyferry_plugins.google.gcloud import config_helper, gcloud_token
from keyferry_plugins.google.metadata import fetch_metadata_token, is_on_gce
from support.fake_cloud import Received, Reply, serving
from support.google_gcloud import write_gcloud
from support.google_world import (
    ACCOUNT,
    IAM,
    OAUTH,
    STS,
    World,
    error_reply,
    external_account,
    google_world,
    service_account,
    token_reply,
    user,
)

ROBOT_URL = f"https://{IAM}/v1/projects/-/serviceAccounts/r@x.example.com:generateAccessToken"
MARKS = ("refresh-token-mark", "client-secret-mark", "subject-token-mark", "source-token-mark", "PRIVATE KEY")
# Far more than any deadline here, far less than what a hang would take.
PATIENCE_SECONDS = 15.0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Google, on loopback, and this process led there."""
    with google_world(tmp_path) as world:
        monkeypatch.setenv("HTTPS_PROXY", world.proxy.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(world.bundle))
        yield world


@pytest.mark.parametrize(
    "reply",
    [Reply(after=3), Reply(503, headers={"Retry-After": "40"}), Reply(is_endless=True)],
    ids=["slow", "asks to wait", "endless"],
)
def test_nothing_waits_past_the_deadline(world: World, reply: Reply) -> None:
    """A slow answer, a wait that does not fit, a body without an end."""
    world.on(f"GET {ACCOUNT}/token", reply)
    environ = {"GCE_METADATA_HOST": f"127.0.0.1:{world.metadata.port}"}
    started = monotonic()
    with pytest.raises(ProvideError):
        fetch_metadata_token(Calls(Deadline(1), environ, retry=Retry()))
    assert monotonic() - started < PATIENCE_SECONDS


def test_a_gcloud_that_hangs_is_killed(tmp_path: Path) -> None:
    """With all that it started."""
    gcloud = write_gcloud(tmp_path / "bin")
    gcloud.prints({}, seconds=600)
    call = config_helper(project="", account="", impersonate="", configuration="")
    environ = {"PATH": f"{gcloud.folder}:{os.environ['PATH']}"}
    started = monotonic()
    with pytest.raises(ProvideError, match="did not end in time"):
        gcloud_token(call, Calls(Deadline(2), environ))
    assert monotonic() - started < PATIENCE_SECONDS


def test_a_probe_gives_up_soon() -> None:
    """A machine that is not Google's may have a silent address there."""
    with serving(lambda _: Reply(after=3)) as silent:
        calls = Calls(Deadline(1), {"GCE_METADATA_IP": f"127.0.0.1:{silent.port}"})
        assert not is_on_gce(calls)


def test_the_server_that_names_itself_is_found() -> None:
    """By its header, not by its address."""
    named = Reply(headers={"Metadata-Flavor": "Google"})
    with serving(lambda _: named) as server:
        assert is_on_gce(Calls(Deadline(10), {"GCE_METADATA_IP": f"127.0.0.1:{server.port}"}))


@pytest.mark.parametrize("host", ["http://127.0.0.1", "127.0.0.1/x", "a@b", "a b", "a?b"])
def test_a_metadata_host_is_a_host(host: str) -> None:
    """And not a URL, nor a part of one."""
    with pytest.raises(ProvideError, match="GCE_METADATA_HOST"):
        fetch_metadata_token(Calls(Deadline(1), {"GCE_METADATA_HOST": host}))


def echo(received: Received) -> Reply:
    """A server that repeats all it was sent, as it came and decoded."""
    body = received.body.decode()
    said = f"{body} | {unquote_plus(body)} | {received.headers.get('authorization')}"
    return error_reply(400, "invalid_request", said)


@pytest.mark.parametrize("kind", ["service_account", "user", "workforce", "external", "impersonated"])
def test_a_server_that_repeats_what_it_was_sent_makes_no_leak(world: World, kind: str) -> None:
    """Neither in the message, nor in the hint, nor in what hangs on the exception."""
    (world.folder / "subject").write_text("subject-token-mark")
    source = external_account(
        {"file": str(world.folder / "subject")}, client_id="c", client_secret="client-secret-mark"
    )
    documents: dict[str, dict[str, object]] = {
        "service_account": service_account(),
        "user": user(),
        "workforce": user(type="external_account_authorized_user"),
        "external": source,
        "impersonated": {
            "type": "impersonated_service_account",
            "service_account_impersonation_url": ROBOT_URL,
            "source_credentials": user(),
        },
    }
    impersonates = kind == "impersonated"
    world.on(f"POST {OAUTH}/token", token_reply("source-token-mark") if impersonates else echo)
    world.on(f"POST {STS}/v1/token", echo)
    world.on(f"POST {STS}/v1/oauthtoken", echo)
    world.on(f"POST {ROBOT_URL.removeprefix('https://')}", echo)
    calls = Calls(Deadline(30), {}, retry=ONCE)
    with pytest.raises(ProvideError, match="invalid_request") as caught:
        token_from(CredentialFile("the file", documents[kind]), calls, ("scope",))
    told = f"{caught.value} {caught.value!r} {caught.value.hint}"
    assert caught.value.__context__ is None
    assert not [mark for mark in MARKS if mark in told]
    assert "eyJ" not in told
    assert "Basic Y" not in told


def test_values_that_hold_secrets_do_not_show_them() -> None:
    """A repr ends up in logs."""
    from keyferry_plugins.google.calls import Token

    values = (Token("secret-mark"), CredentialFile("x", user()), Calls(Deadline(1), {"A": "secret-mark"}))
    assert "mark" not in repr(values)
