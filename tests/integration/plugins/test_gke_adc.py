"""The cluster plugin with application default credentials, against servers that check what they get."""

from __future__ import annotations

from support.fake_cloud import Received, Reply
from support.google_world import (
    ACCESS_TOKEN,
    ACCOUNT,
    CLOUD_PLATFORM,
    EMAIL_SCOPE,
    IAM,
    IMPERSONATED_TOKEN,
    NODE_TOKEN,
    OAUTH,
    World,
    api_error_reply,
    error_reply,
    impersonated_reply,
    service_account,
    token_reply,
    user,
    verified_claims,
)
from support.reference import Answer, ask_cluster

EXPIRY = "2035-01-02T03:04:05Z"
ADC = "--use_application_default_credentials"


def adc(world: World, *args: str, exec_info: str | None = "v1", **more: str) -> Answer:
    """Ask by application default credentials, off Google's machines unless a variable says otherwise."""
    return ask_cluster("gke", args=(ADC, *args), env=world.env(**more), exec_info=exec_info)


def test_a_key_file_gives_a_token_that_is_not_kept(world: World) -> None:
    """The assertion is signed by the account's key, for both scopes."""

    def check(received: Received) -> Reply:
        claims = verified_claims(received.form["assertion"])
        assert claims["scope"] == f"{CLOUD_PLATFORM} {EMAIL_SCOPE}"
        return token_reply(ACCESS_TOKEN)

    world.on(f"POST {OAUTH}/token", check)
    answer = adc(world, GOOGLE_APPLICATION_CREDENTIALS=world.write("key.json", service_account()))
    assert answer.login_status["token"] == ACCESS_TOKEN
    assert answer.login_status["expirationTimestamp"] > "2025"
    assert not (world.folder / ".kube").exists()


def test_a_machine_of_googles_asks_its_metadata_server_for_both_scopes(world: World) -> None:
    """Joined by a comma."""

    def check(received: Received) -> Reply:
        assert received.query == {"scopes": f"{CLOUD_PLATFORM},{EMAIL_SCOPE}"}
        return token_reply()

    world.on(f"GET {ACCOUNT}/token", check)
    answer = adc(world, GCE_METADATA_HOST=f"127.0.0.1:{world.metadata.port}")
    assert answer.login_status["token"] == NODE_TOKEN


def test_a_broken_file_of_the_environment_is_final(world: World) -> None:
    """No further place is looked at."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    answer = adc(world, GOOGLE_APPLICATION_CREDENTIALS=str(world.folder / "none.json"))
    assert answer.status == 1
    assert "none.json" in answer.stderr
    assert world.api.received == []


def test_impersonation_works_without_gcloud(world: World) -> None:
    """Upstream leaves the flag to gcloud; here the account's token is asked for with the default one."""

    def check(received: Received) -> Reply:
        assert received.headers["authorization"] == f"Bearer {ACCESS_TOKEN}"
        assert received.json == {"lifetime": "3600s", "scope": [CLOUD_PLATFORM, EMAIL_SCOPE]}
        return impersonated_reply()

    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    world.on(f"POST {IAM}/v1/projects/-/serviceAccounts/sa@demo.example.com:generateAccessToken", check)
    args = ("--impersonate_service_account=sa@demo.example.com",)
    assert adc(world, *args).login_status == {"token": IMPERSONATED_TOKEN, "expirationTimestamp": EXPIRY}
    assert adc(world, *args, "--compat").login_status["token"] == ACCESS_TOKEN


def test_a_refused_impersonation_says_what_to_grant(world: World) -> None:
    """And to whom; the token it was asked with is masked."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    refused = api_error_reply(403, "PERMISSION_DENIED", f"denied {ACCESS_TOKEN}")
    world.on(f"POST {IAM}/v1/projects/-/serviceAccounts/sa@demo.example.com:generateAccessToken", refused)
    answer = adc(world, "--impersonate_service_account=sa@demo.example.com")
    assert answer.status == 1
    assert "PERMISSION_DENIED" in answer.stderr
    assert "roles/iam.serviceAccountTokenCreator on sa@demo.example.com" in answer.stderr
    assert ACCESS_TOKEN not in answer.stderr


def test_upstream_tries_four_times_whatever_fails(world: World) -> None:
    """With ``--compat``; without it a refusal is final."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", error_reply(400, "invalid_grant", "expired"))
    answer = adc(world, "--compat")
    assert answer.status == 1
    assert "gcloud auth application-default login" in answer.stderr
    assert len(world.api.received) == 4
    assert adc(world).status == 1
    assert len(world.api.received) == 5


def test_what_passes_is_tried_again(world: World) -> None:
    """Throttling and a server that is down for a moment."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", Reply(503), Reply(is_closed=True), token_reply(ACCESS_TOKEN))
    assert adc(world).login_status["token"] == ACCESS_TOKEN
