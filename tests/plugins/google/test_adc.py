"""Application default credentials of keyferry-gke: where they are found, and each kind of them."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from datetime import datetime
from urllib.parse import unquote_plus

import pytest

from keyferry.sdk import Deadline
from keyferry_plugins.google.calls import Calls
from keyferry_plugins.google.metadata import is_on_gce
from keyferry_plugins.signing.jose import read_header
from support.certificates import key_pem, make_key
from support.fake_cloud import Received, Reply, serving
from support.google_world import (
    ACCESS_TOKEN,
    CLOUD_PLATFORM,
    EMAIL_SCOPE,
    FEDERATED_TOKEN,
    IAM,
    IMPERSONATED_TOKEN,
    OAUTH,
    STS,
    Answer,
    World,
    api_error_reply,
    error_reply,
    external_account,
    impersonated_reply,
    rsa_key,
    service_account,
    token_reply,
    user,
    verified_claims,
)

SCOPES = (CLOUD_PLATFORM, EMAIL_SCOPE)
ROBOT = "robot@demo.iam.gserviceaccount.com"
ROBOT_PATH = f"/v1/projects/-/serviceAccounts/{ROBOT}:generateAccessToken"
ROBOT_URL = f"https://{IAM}{ROBOT_PATH}"
SUBJECT = "subject-token-mark"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
WORKFORCE = "//iam.googleapis.com/locations/global/workforcePools/p/providers/x"
HALF_A_DAY = 12 * 3600


def token_of(world: World, document: object, **env: str) -> str:
    """The token for a credential file with that document."""
    return world.ask_gke(document, **env).login_status["token"]


def lifetime_of(world: World, document: object) -> float | None:
    """The seconds until the end of the token for a credential file, if it has one."""
    end = world.ask_gke(document).login_status.get("expirationTimestamp")
    return None if end is None else datetime.fromisoformat(end).timestamp() - time.time()


def failure(world: World, document: object = None, *args: str, **env: str) -> str:
    """The error of a run that fails, which shows no secret."""
    said = world.ask_gke(document, *args, **env).failure
    for secret in ("-mark", "PRIVATE KEY", "eyJ", "Basic Y", "Traceback"):
        assert secret not in said
    return said


def expecting(form: dict[str, str], reply: Reply, *, authorization: str | None = None) -> Answer:
    """An answer for one form, and one way to authenticate or none."""

    def check(received: Received) -> Reply:
        assert received.headers["content-type"] == "application/x-www-form-urlencoded"
        assert received.headers.get("authorization") == authorization
        assert received.form == form
        return reply

    return check


def exchange_form(scope: str = " ".join(SCOPES), **more: str) -> dict[str, str]:
    """What the token service is asked for an external account."""
    return {
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x",
        "grant_type": EXCHANGE,
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "scope": scope,
        "subject_token": SUBJECT,
    } | more


def subject_file(world: World, text: str = f" {SUBJECT}\n") -> dict[str, object]:
    """A credential source that is a file."""
    path = world.folder / "subject"
    path.write_text(text)
    return {"file": str(path)}


def impersonated(source: dict[str, object] | None = None, **more: object) -> dict[str, object]:
    """The credential file of an impersonated account, whose source is a person unless it is given."""
    return {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": ROBOT_URL,
        "source_credentials": source or user(),
    } | more


@pytest.mark.parametrize("form", ["pkcs8", "traditional"])
def test_a_service_account_signs_an_assertion(world: World, form: str) -> None:
    """For the endpoint it is sent to, ten seconds old, good for an hour, with the key's id."""

    def check(received: Received) -> Reply:
        assert received.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        assert read_header(received.form["assertion"]) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
        claims = verified_claims(received.form["assertion"])
        issued = claims.pop("iat")
        assert isinstance(issued, int)
        assert 10 <= time.time() - issued < 100
        assert claims == {
            "iss": "puller@demo.iam.gserviceaccount.com",
            "scope": f"{CLOUD_PLATFORM} {EMAIL_SCOPE}",
            "aud": f"https://{OAUTH}/token",
            "exp": issued + 3600,
        }
        return token_reply(ACCESS_TOKEN, 3600)

    world.on(f"POST {OAUTH}/token", check)
    assert token_of(world, service_account(private_key=key_pem(rsa_key(), form))) == ACCESS_TOKEN
    assert not (world.folder / ".kube").exists()


NOT_TLS = "is not an https:// URL"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"private_key": "secret-mark"}, "not an RSA key"),
        ({"private_key": key_pem(make_key("ec"))}, "not an RSA key"),
        ({"private_key": None}, "private_key is missing"),
        ({"client_email": ""}, "client_email is missing"),
        ({"client_email": 5}, "client_email is not a string"),
        ({"token_uri": "http://token.example.com/"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "http://127.0.0.1.example.com/"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "http://localhost.example.com/"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "http://127..1/"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "http://127.999.1.1/"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "http://127.0.0.1@example.com/"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "http://example.com/?https://"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "HTTP://example.com"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "https:/example.com"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "ftp://127.0.0.1/"}, f"token_uri {NOT_TLS}"),
        ({"token_uri": "file:///etc/passwd"}, f"token_uri {NOT_TLS}"),
    ],
)
def test_a_broken_key_file_is_an_error_that_names_the_member(
    world: World, changes: dict[str, object], words: str
) -> None:
    """And quotes nothing of it; nothing is sent anywhere, but over TLS or to this machine."""
    assert words in failure(world, service_account(**changes))
    assert world.proxy.asked == []


def test_a_secret_may_stay_on_this_machine_without_tls(world: World) -> None:
    with serving(lambda _: token_reply(ACCESS_TOKEN)) as server:
        assert token_of(world, service_account(token_uri=f"{server.url}/token")) == ACCESS_TOKEN


def test_a_deleted_key_is_explained(world: World) -> None:
    """What Google says, and what to look at."""
    world.on(f"POST {OAUTH}/token", error_reply(400, "invalid_grant", "Invalid JWT Signature."))
    said = failure(world, service_account())
    assert "invalid_grant: Invalid JWT Signature" in said
    assert "keys list" in said


def test_a_persons_refresh_token_goes_to_google_alone(world: World) -> None:
    """In a form; an address in the file is not followed."""
    form = {
        "grant_type": "refresh_token",
        "client_id": "client-1.apps.googleusercontent.com",
        "client_secret": "GOCSPX-client-secret-mark",
        "refresh_token": "1//refresh-token-mark",
    }
    world.on(f"POST {OAUTH}/token", expecting(form, token_reply(ACCESS_TOKEN)))
    assert token_of(world, user(token_uri="https://evil.example.com/token")) == ACCESS_TOKEN
    assert world.proxy.asked == [f"{OAUTH}:443"]


def test_a_revoked_login_says_how_to_log_in_again_and_shows_no_secret(world: World) -> None:
    """Even where the server repeats what it was sent."""
    said = "Token 1//refresh-token-mark of GOCSPX-client-secret-mark has been revoked"
    world.on(f"POST {OAUTH}/token", error_reply(400, "invalid_grant", said))
    shown = failure(world, user())
    assert "has been revoked" in shown
    assert "gcloud auth application-default login" in shown


def test_a_workforce_login_authenticates_its_client_by_header(world: World) -> None:
    """The secret is not in the form."""
    pair = b64encode(b"client-1.apps.googleusercontent.com:GOCSPX-client-secret-mark").decode()
    form = {"grant_type": "refresh_token", "refresh_token": "1//refresh-token-mark"}
    world.on(
        f"POST {STS}/v1/oauthtoken", expecting(form, token_reply(ACCESS_TOKEN), authorization=f"Basic {pair}")
    )
    assert token_of(world, user(type="external_account_authorized_user")) == ACCESS_TOKEN


@pytest.mark.parametrize("is_json", [False, True], ids=["text", "JSON"])
def test_an_external_account_exchanges_the_token_in_a_file(world: World, *, is_json: bool) -> None:
    """Blanks around it do not count; in JSON it has the name that the file gives."""
    source = subject_file(world)
    if is_json:
        source = subject_file(world, json.dumps({"id": SUBJECT, "other": "x"}))
        source["format"] = {"type": "json", "subject_token_field_name": "id"}
    world.on(f"POST {STS}/v1/token", expecting(exchange_form(), token_reply(FEDERATED_TOKEN)))
    assert token_of(world, external_account(source)) == FEDERATED_TOKEN


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("", None),
        ("  \n", None),
        ("{", {"type": "json", "subject_token_field_name": "id"}),
        ('{"id": 5}', {"type": "json", "subject_token_field_name": "id"}),
        ('{"id": "subject-token-mark"}', {"type": "json"}),
        ("subject-token-mark", {"type": "xml"}),
    ],
)
def test_a_file_without_a_token_is_an_error_that_quotes_nothing(
    world: World, text: str, layout: dict[str, str] | None
) -> None:
    """And nothing is exchanged."""
    source = subject_file(world, text) | ({"format": layout} if layout else {})
    assert "credential_source" in failure(world, external_account(source))
    assert world.api.received == []


def test_an_external_account_asks_a_url_with_the_headers_given(world: World) -> None:
    """As other clouds' metadata servers want it; plain http is asked directly."""

    def check(received: Received) -> Reply:
        assert received.query == {"audience": "x"}
        return Reply(document={"access_token": SUBJECT})

    world.on("GET /identity", check)
    world.on(f"POST {STS}/v1/token", expecting(exchange_form(), token_reply(FEDERATED_TOKEN)))
    source = {
        "url": f"{world.metadata.url}/identity?audience=x",
        # The stand-in for the other cloud is our metadata server, which insists on this header.
        "headers": {"Metadata-Flavor": "Google"},
        "format": {"type": "json", "subject_token_field_name": "access_token"},
    }
    assert token_of(world, external_account(source)) == FEDERATED_TOKEN


def test_a_url_that_fails_is_named_without_its_query(world: World) -> None:
    """The query may hold a secret."""
    world.on("GET /identity", Reply(500))
    source = {
        "url": f"{world.metadata.url}/identity?key=secret-mark",
        "headers": {"Metadata-Flavor": "Google"},
    }
    assert "/identity answered status 500" in failure(world, external_account(source))


def test_another_clouds_metadata_server_is_never_asked_through_a_proxy(world: World) -> None:
    """Whoever runs the proxy would get the subject token."""
    source = {"url": "http://metadata.invalid/identity"}
    assert "metadata.invalid" in failure(world, external_account(source), HTTP_PROXY=world.proxy.url)
    assert world.proxy.asked == []


def test_a_client_of_its_own_authenticates_at_the_exchange(world: World) -> None:
    """And then a workforce pool's project is not told."""
    pair = b64encode(b"client:client-secret-mark").decode()
    reply = token_reply(FEDERATED_TOKEN)
    form = exchange_form(audience=WORKFORCE)
    world.on(f"POST {STS}/v1/token", expecting(form, reply, authorization=f"Basic {pair}"))
    more = {"client_id": "client", "client_secret": "client-secret-mark", "workforce_pool_user_project": "42"}
    assert (
        token_of(world, external_account(subject_file(world), audience=WORKFORCE, **more)) == FEDERATED_TOKEN
    )


def test_a_workforce_pool_tells_which_project_is_billed(world: World) -> None:
    """As an option of the exchange; a workload pool must not have one."""
    form = exchange_form(audience=WORKFORCE, options='{"userProject":"42"}')
    world.on(f"POST {STS}/v1/token", expecting(form, token_reply(FEDERATED_TOKEN)))
    more = {"workforce_pool_user_project": "42"}
    assert (
        token_of(world, external_account(subject_file(world), audience=WORKFORCE, **more)) == FEDERATED_TOKEN
    )
    assert "workforce_pool_user_project" in failure(world, external_account(subject_file(world), **more))


def test_an_external_account_impersonates_a_service_account(world: World) -> None:
    """The exchange asks for the widest scope only, the impersonation for what is wanted, for as long as said."""

    def check(received: Received) -> Reply:
        assert received.headers["authorization"] == f"Bearer {FEDERATED_TOKEN}"
        assert received.headers["content-type"] == "application/json"
        assert received.json == {"lifetime": "1200s", "scope": list(SCOPES)}
        return impersonated_reply(expires="2035-06-15T18:00:00.5+02:00")

    world.on(f"POST {STS}/v1/token", expecting(exchange_form(CLOUD_PLATFORM), token_reply(FEDERATED_TOKEN)))
    world.on(f"POST {IAM}{ROBOT_PATH}", check)
    more = {
        "service_account_impersonation_url": ROBOT_URL,
        "service_account_impersonation": {"token_lifetime_seconds": 1200},
    }
    status = world.ask_gke(external_account(subject_file(world), **more)).login_status
    assert status == {"token": IMPERSONATED_TOKEN, "expirationTimestamp": "2035-06-15T16:00:00Z"}


def test_a_refused_federation_names_the_role_for_principals(world: World) -> None:
    """Not the role that people and service accounts need."""
    world.on(f"POST {STS}/v1/token", token_reply(FEDERATED_TOKEN))
    world.on(
        f"POST {IAM}{ROBOT_PATH}", api_error_reply(403, "PERMISSION_DENIED", f"not for {FEDERATED_TOKEN}")
    )
    document = external_account(subject_file(world), service_account_impersonation_url=ROBOT_URL)
    said = failure(world, document)
    assert f"roles/iam.workloadIdentityUser on {ROBOT}" in said
    assert FEDERATED_TOKEN not in said


@pytest.mark.parametrize("seconds", [599, 43201, -1])
def test_a_lifetime_that_google_refuses_is_refused_here(world: World, seconds: int) -> None:
    """Ten minutes to twelve hours."""
    more = {
        "service_account_impersonation_url": ROBOT_URL,
        "service_account_impersonation": {"token_lifetime_seconds": seconds},
    }
    world.on(f"POST {STS}/v1/token", token_reply(FEDERATED_TOKEN))
    assert "token_lifetime_seconds" in failure(world, external_account(subject_file(world), **more))


def test_an_impersonated_account_has_a_source_and_delegates(world: World) -> None:
    """The source is any other kind of credentials."""

    def check(received: Received) -> Reply:
        assert received.headers["authorization"] == f"Bearer {ACCESS_TOKEN}"
        assert received.json == {"lifetime": "3600s", "scope": list(SCOPES), "delegates": ["projects/-/a"]}
        return impersonated_reply()

    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    world.on(f"POST {IAM}{ROBOT_PATH}", check)
    assert token_of(world, impersonated(delegates=["projects/-/a"])) == IMPERSONATED_TOKEN


def test_accounts_do_not_impersonate_each_other_forever(world: World) -> None:
    """A chain in a file has an end."""
    document: dict[str, object] = user()
    for _ in range(50):
        document = impersonated(document)
    assert "impersonate each other" in failure(world, document)


@pytest.mark.parametrize("expires", [None, "", "tomorrow", 17, "2035-06-15", "2035-06-15T16:00:00"])
def test_an_impersonated_token_needs_an_end(world: World, expires: object) -> None:
    """With a zone; a token that is kept for too long fails later, and elsewhere."""
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    world.on(f"POST {IAM}{ROBOT_PATH}", impersonated_reply(expires=expires))
    assert "expireTime" in failure(world, impersonated())


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"type": "gdch_service_account"}, "type is 'gdch_service_account'"),
        ({}, "type is ''"),
        ({"installed": {"client_secret": "secret-mark"}}, "OAuth client"),
        ({"type": "impersonated_service_account"}, "source_credentials is missing"),
        (
            {"type": "external_account", "audience": "x", "subject_token_type": "y"},
            "credential_source is missing",
        ),
        (external_account({"certificate": {}}), "none of file, url, executable"),
        (external_account({"file": "/x"}, token_url="http://sts.example.com/"), f"token_url {NOT_TLS}"),
        (external_account({"file": "/x"}, audience=""), "audience is missing"),
        ([], "key.json' is not a JSON object"),
        ("secret-mark", "key.json' is not a JSON object"),
    ],
)
def test_files_of_another_kind_are_explained(world: World, document: object, words: str) -> None:
    """What was found, and what was expected."""
    assert words in failure(world, document)


@pytest.mark.parametrize("content", ["", "{", "secret-mark"])
def test_a_file_that_is_no_json_is_named_and_not_quoted(world: World, content: str) -> None:
    """It may be a key all the same."""
    path = world.folder / "broken.json"
    path.write_text(content)
    said = failure(world, GOOGLE_APPLICATION_CREDENTIALS=str(path))
    assert "broken.json' is not a JSON object" in said


def test_a_broken_file_of_the_environment_is_final(world: World) -> None:
    """No further place is looked at."""
    world.write(".config/gcloud/application_default_credentials.json", user())
    said = failure(world, GOOGLE_APPLICATION_CREDENTIALS=str(world.folder / "none.json"))
    assert "none.json" in said
    assert world.api.received == []


def test_gclouds_folder_can_be_elsewhere(world: World) -> None:
    """CLOUDSDK_CONFIG, which only newer libraries honour, and upstream's does not."""
    world.write("sdk/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    folder = str(world.folder / "sdk")
    assert token_of(world, None, CLOUDSDK_CONFIG=folder) == ACCESS_TOKEN
    assert "no application default credentials" in failure(world, None, "--compat", CLOUDSDK_CONFIG=folder)


def echo(received: Received) -> Reply:
    """A server that repeats all it was sent, as it came and decoded."""
    body = received.body.decode()
    said = f"{body} | {unquote_plus(body)} | {received.headers.get('authorization')}"
    return error_reply(400, "invalid_request", said)


def echo_values(received: Received) -> Reply:
    """A server that repeats the secrets that it was sent, without their names."""
    names = ("assertion", "client_secret", "refresh_token", "subject_token")
    values = [received.form[name] for name in names if name in received.form] if b"&" in received.body else []
    values.append(received.headers.get("authorization", "").rpartition(" ")[2])
    return error_reply(400, "invalid_request", " and ".join(values))


@pytest.mark.parametrize("kind", ["service_account", "user", "workforce", "external", "impersonated"])
def test_a_server_that_repeats_what_it_was_sent_makes_no_leak(world: World, kind: str) -> None:
    """Neither in the message, nor in the hint."""
    source = subject_file(world)
    documents: dict[str, dict[str, object]] = {
        "service_account": service_account(),
        "user": user(),
        "workforce": user(type="external_account_authorized_user"),
        "external": external_account(source, client_id="c", client_secret="client-secret-mark"),
        "impersonated": impersonated(),
    }
    for answer in (echo, echo_values):
        for place in (f"{OAUTH}/token", f"{STS}/v1/token", f"{STS}/v1/oauthtoken", f"{IAM}{ROBOT_PATH}"):
            world.on(f"POST {place}", answer)
        if kind == "impersonated":
            world.on(f"POST {OAUTH}/token", token_reply("source-token-mark"))
        said = failure(world, documents[kind])
        assert "invalid_request" in said
        assert "Y2xpZW50" not in said


NO_LIFETIMES: list[object] = [None, True, 0, -5, "", "-5", "1e3", "٣", "9" * 13, [], {}]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (3599, 3599),
        (600.5, 600.5),
        ("3599", 3599),
        (10**30, HALF_A_DAY),
        ("999999999999", HALF_A_DAY),
        *((odd, None) for odd in NO_LIFETIMES),
    ],
)
def test_a_lifetime_is_believed_up_to_twelve_hours(
    world: World, value: object, seconds: float | None
) -> None:
    """Number or digits; nothing is made of anything else."""
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN, value))
    found = lifetime_of(world, user())
    assert found is None if seconds is None else found is not None and seconds - 100 < found <= seconds


@pytest.mark.parametrize(
    "secret",
    [
        "ya29.a0AfH6SM-x_y",
        "1//0gSecret/Refresh+x=",
        "4//0gSecretCode",
        "AIzaSySecretKey",
        "GOCSPX-abc_def-1",
        "eyJhbGciOiJSUzI1NiJ9.e30.sig",
        "plain-known",
        "ya29.begin,and-the-end",
    ],
)
def test_no_secret_is_shown(world: World, secret: str) -> None:
    """Google's shapes, web tokens, and as a whole what is known to be one."""
    world.on(f"POST {OAUTH}/token", error_reply(400, "invalid_grant", f"bad <{secret}> here"))
    known = secret if secret in ("plain-known", "ya29.begin,and-the-end") else "1//refresh-token-mark"
    assert "bad <********> here" in failure(world, user(refresh_token=known))


def test_what_a_server_says_is_bounded_and_printable(world: World) -> None:
    """One line without control characters."""
    world.on(f"POST {OAUTH}/token", error_reply(400, "a\x1b[2Jb\n  c", "x " * 500))
    said = failure(world, user())
    assert "(a\ufffd[2Jb c: x x" in said
    assert len(said) < 800


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error": {"status": "DENIED", "message": "no", "secret": "x-mark"}}', "answered status 400 (DENIED: no)\n"),
        (b'{"error": 5, "secret": "x-mark"}', "answered status 400\n"),
        (b"<html>x-mark</html>", "answered status 400\n"),
    ],
)  # fmt: skip
def test_only_known_fields_of_an_error_are_shown(world: World, body: bytes, reason: str) -> None:
    """Never the body."""
    world.on(f"POST {OAUTH}/token", Reply(400, body=body))
    assert reason in failure(world, user())


def test_the_server_that_names_itself_is_found() -> None:
    """By its header, not by its address. Asked here, since a token would be sought on Google's network."""
    with serving(lambda _: Reply(headers={"Metadata-Flavor": "Google"})) as server:
        environ = {"GCE_METADATA_IP": f"127.0.0.1:{server.port}"}
        assert is_on_gce(Calls(deadline=Deadline(10), environ=environ))
