"""Application default credentials: where they are found, and each kind of them."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from urllib.parse import unquote_plus

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import ONCE, Retry
from keyferry.sdk.http import Reply as HttpReply
from keyferry_plugins.google.adc import default_token, token_from
from keyferry_plugins.google.calls import MAX_LIFETIME_SECONDS, Calls, check_endpoint, lifetime, refusal, told
from keyferry_plugins.google.credential_file import CredentialFile
from keyferry_plugins.google.metadata import fetch_metadata_token, is_on_gce
from keyferry_plugins.oauth.answers import Token, read_time
from keyferry_plugins.signing.jose import read_header
from support.certificates import key_pem, make_key
from support.fake_cloud import Received, Reply, serving
from support.google_world import (
    ACCESS_TOKEN,
    ACCOUNT,
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

NOW = 1_750_000_000.0
SCOPES = (CLOUD_PLATFORM, EMAIL_SCOPE)
ROBOT = "robot@demo.iam.gserviceaccount.com"
ROBOT_PATH = f"/v1/projects/-/serviceAccounts/{ROBOT}:generateAccessToken"
ROBOT_URL = f"https://{IAM}{ROBOT_PATH}"
SUBJECT = "subject-token-mark"
MARKS = ("refresh-token-mark", "client-secret-mark", "subject-token-mark", "source-token-mark", "PRIVATE KEY")
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


def calls_of(**environ: str) -> Calls:
    """One try, at a time that stands still."""
    return Calls(
        deadline=Deadline(30), environ={"NO_GCE_CHECK": "true", **environ}, now=lambda: NOW, retry=ONCE
    )


def token_of(document: dict[str, object], **environ: str) -> Token:
    """The token for a credential file with that document."""
    return token_from(CredentialFile(where="the file", members=document), calls_of(**environ), SCOPES)


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


@pytest.mark.parametrize("form", ["pkcs8", "traditional"])
def test_a_service_account_signs_an_assertion(world: World, form: str) -> None:
    """For the endpoint it is sent to, ten seconds old, good for an hour, with the key's id."""

    def check(received: Received) -> Reply:
        assert received.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        assert read_header(received.form["assertion"]) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
        assert verified_claims(received.form["assertion"]) == {
            "iss": "puller@demo.iam.gserviceaccount.com",
            "scope": f"{CLOUD_PLATFORM} {EMAIL_SCOPE}",
            "aud": f"https://{OAUTH}/token",
            "iat": NOW - 10,
            "exp": NOW - 10 + 3600,
        }
        return token_reply(ACCESS_TOKEN, 3600)

    world.on(f"POST {OAUTH}/token", check)
    document = service_account(private_key=key_pem(rsa_key(), form))
    assert token_of(document) == Token(value=ACCESS_TOKEN, expires_at=NOW + 3600, origin="service_account")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"private_key": "secret-mark"}, "not an RSA key"),
        ({"private_key": key_pem(make_key("ec"))}, "not an RSA key"),
        ({"private_key": None}, "private_key is missing"),
        ({"client_email": ""}, "client_email is missing"),
        ({"client_email": 5}, "client_email is not a string"),
        ({"token_uri": "http://token.example.com/"}, "token_uri is not an https:// URL"),
        ({"token_uri": "http://127.0.0.1.example.com/"}, "token_uri is not an https:// URL"),
        ({"token_uri": "file:///etc/passwd"}, "token_uri is not an https:// URL"),
    ],
)
def test_a_broken_key_file_is_an_error_that_names_the_member(changes: dict[str, object], words: str) -> None:
    """And quotes nothing of it; nothing is sent anywhere."""
    with pytest.raises(ProvideError, match=words) as caught:
        token_of(service_account(**changes))
    assert "secret-mark" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


def test_a_deleted_key_is_explained(world: World) -> None:
    """What Google says, and what to look at."""
    world.on(f"POST {OAUTH}/token", error_reply(400, "invalid_grant", "Invalid JWT Signature."))
    with pytest.raises(ProvideError, match="invalid_grant: Invalid JWT Signature") as caught:
        token_of(service_account())
    assert "keys list" in caught.value.hint


def test_a_persons_refresh_token_goes_to_google_alone(world: World) -> None:
    """In a form; an address in the file is not followed."""
    form = {
        "grant_type": "refresh_token",
        "client_id": "client-1.apps.googleusercontent.com",
        "client_secret": "GOCSPX-client-secret-mark",
        "refresh_token": "1//refresh-token-mark",
    }
    world.on(f"POST {OAUTH}/token", expecting(form, token_reply(ACCESS_TOKEN, "3599")))
    found = token_of(user(token_uri="https://evil.example.com/token"))
    assert found == Token(value=ACCESS_TOKEN, expires_at=NOW + 3599, origin="authorized_user")


def test_a_revoked_login_says_how_to_log_in_again_and_shows_no_secret(world: World) -> None:
    """Even where the server repeats what it was sent."""
    said = "Token 1//refresh-token-mark of GOCSPX-client-secret-mark has been revoked"
    world.on(f"POST {OAUTH}/token", error_reply(400, "invalid_grant", said))
    with pytest.raises(ProvideError, match="gcloud auth application-default login") as caught:
        token_of(user())
    assert "has been revoked" in str(caught.value)
    assert "mark" not in str(caught.value)


def test_a_workforce_login_authenticates_its_client_by_header(world: World) -> None:
    """The secret is not in the form."""
    pair = b64encode(b"client-1.apps.googleusercontent.com:GOCSPX-client-secret-mark").decode()
    form = {"grant_type": "refresh_token", "refresh_token": "1//refresh-token-mark"}
    world.on(
        f"POST {STS}/v1/oauthtoken", expecting(form, token_reply(ACCESS_TOKEN), authorization=f"Basic {pair}")
    )
    found = token_of(user(type="external_account_authorized_user"))
    assert found == Token(
        value=ACCESS_TOKEN, expires_at=NOW + 3599, origin="external_account_authorized_user"
    )


def test_an_external_account_exchanges_the_token_in_a_file(world: World) -> None:
    """Blanks around it do not count."""
    world.on(f"POST {STS}/v1/token", expecting(exchange_form(), token_reply(FEDERATED_TOKEN)))
    found = token_of(external_account(subject_file(world)))
    assert found == Token(value=FEDERATED_TOKEN, expires_at=NOW + 3599, origin="external_account")


def test_an_external_account_takes_its_token_out_of_json(world: World) -> None:
    """By the name that the file gives."""
    source = subject_file(world, json.dumps({"id": SUBJECT, "other": "x"}))
    source["format"] = {"type": "json", "subject_token_field_name": "id"}
    world.on(f"POST {STS}/v1/token", expecting(exchange_form(), token_reply(FEDERATED_TOKEN)))
    assert token_of(external_account(source)).value == FEDERATED_TOKEN


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
    with pytest.raises(ProvideError) as caught:
        token_of(external_account(source))
    assert SUBJECT not in str(caught.value)
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
    assert token_of(external_account(source)).value == FEDERATED_TOKEN


def test_a_url_that_fails_is_named_without_its_query(world: World) -> None:
    """The query may hold a secret."""
    world.on("GET /identity", Reply(500))
    source = {
        "url": f"{world.metadata.url}/identity?key=secret-mark",
        "headers": {"Metadata-Flavor": "Google"},
    }
    with pytest.raises(ProvideError, match="/identity answered status 500") as caught:
        token_of(external_account(source))
    assert "secret-mark" not in str(caught.value)


def test_another_clouds_metadata_server_is_never_asked_through_a_proxy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the proxy would get the subject token."""
    monkeypatch.setenv("HTTP_PROXY", world.proxy.url)
    with pytest.raises(ProvideError, match=r"metadata\.invalid"):
        token_of(external_account({"url": "http://metadata.invalid/identity"}))
    assert world.proxy.asked == []


def test_a_client_of_its_own_authenticates_at_the_exchange(world: World) -> None:
    """And then a workforce pool's project is not told."""
    audience = "//iam.googleapis.com/locations/global/workforcePools/p/providers/x"
    pair = b64encode(b"client:client-secret-mark").decode()
    form = exchange_form(audience=audience)
    world.on(
        f"POST {STS}/v1/token", expecting(form, token_reply(FEDERATED_TOKEN), authorization=f"Basic {pair}")
    )
    more = {"client_id": "client", "client_secret": "client-secret-mark", "workforce_pool_user_project": "42"}
    assert token_of(external_account(subject_file(world), audience=audience, **more)).value == FEDERATED_TOKEN


def test_a_workforce_pool_tells_which_project_is_billed(world: World) -> None:
    """As an option of the exchange; a workload pool must not have one."""
    audience = "//iam.googleapis.com/locations/global/workforcePools/p/providers/x"
    form = exchange_form(audience=audience, options='{"userProject":"42"}')
    world.on(f"POST {STS}/v1/token", expecting(form, token_reply(FEDERATED_TOKEN)))
    more = {"workforce_pool_user_project": "42"}
    assert token_of(external_account(subject_file(world), audience=audience, **more)).value == FEDERATED_TOKEN
    with pytest.raises(ProvideError, match="workforce_pool_user_project"):
        token_of(external_account(subject_file(world), **more))


def test_an_external_account_impersonates_a_service_account(world: World) -> None:
    """The exchange asks for the widest scope only, the impersonation for what is wanted, for as long as said."""

    def check(received: Received) -> Reply:
        assert received.headers["authorization"] == f"Bearer {FEDERATED_TOKEN}"
        assert received.headers["content-type"] == "application/json"
        assert received.json == {"lifetime": "1200s", "scope": list(SCOPES)}
        return impersonated_reply(expires="2025-06-15T16:00:00Z")

    world.on(f"POST {STS}/v1/token", expecting(exchange_form(CLOUD_PLATFORM), token_reply(FEDERATED_TOKEN)))
    world.on(f"POST {IAM}{ROBOT_PATH}", check)
    more = {
        "service_account_impersonation_url": ROBOT_URL,
        "service_account_impersonation": {"token_lifetime_seconds": 1200},
    }
    found = token_of(external_account(subject_file(world), **more))
    assert found == Token(
        value=IMPERSONATED_TOKEN, expires_at=1_750_003_200.0, origin="impersonated_service_account"
    )


def test_a_refused_federation_names_the_role_for_principals(world: World) -> None:
    """Not the role that people and service accounts need."""
    world.on(f"POST {STS}/v1/token", token_reply(FEDERATED_TOKEN))
    world.on(
        f"POST {IAM}{ROBOT_PATH}", api_error_reply(403, "PERMISSION_DENIED", f"not for {FEDERATED_TOKEN}")
    )
    with pytest.raises(ProvideError, match=rf"roles/iam.workloadIdentityUser on {ROBOT}") as caught:
        token_of(external_account(subject_file(world), service_account_impersonation_url=ROBOT_URL))
    assert FEDERATED_TOKEN not in str(caught.value)


@pytest.mark.parametrize("seconds", [599, 43201, -1])
def test_a_lifetime_that_google_refuses_is_refused_here(world: World, seconds: int) -> None:
    """Ten minutes to twelve hours."""
    more = {
        "service_account_impersonation_url": ROBOT_URL,
        "service_account_impersonation": {"token_lifetime_seconds": seconds},
    }
    world.on(f"POST {STS}/v1/token", token_reply(FEDERATED_TOKEN))
    with pytest.raises(ProvideError, match="token_lifetime_seconds"):
        token_of(external_account(subject_file(world), **more))


def test_an_impersonated_account_has_a_source_and_delegates(world: World) -> None:
    """The source is any other kind of credentials."""

    def check(received: Received) -> Reply:
        assert received.headers["authorization"] == f"Bearer {ACCESS_TOKEN}"
        assert received.json == {"lifetime": "3600s", "scope": list(SCOPES), "delegates": ["projects/-/a"]}
        return impersonated_reply()

    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    world.on(f"POST {IAM}{ROBOT_PATH}", check)
    document: dict[str, object] = {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": ROBOT_URL,
        "delegates": ["projects/-/a"],
        "source_credentials": user(),
    }
    assert token_of(document).value == IMPERSONATED_TOKEN


def test_accounts_do_not_impersonate_each_other_forever() -> None:
    """A chain in a file has an end."""
    document: dict[str, object] = user()
    for _ in range(50):
        document = {
            "type": "impersonated_service_account",
            "service_account_impersonation_url": ROBOT_URL,
            "source_credentials": document,
        }
    with pytest.raises(ProvideError, match="impersonate each other"):
        token_of(document)


@pytest.mark.parametrize("expires", [None, "", "tomorrow", 17])
def test_an_impersonated_token_needs_an_end(world: World, expires: object) -> None:
    """A token that is kept for too long fails later, and elsewhere."""
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    world.on(f"POST {IAM}{ROBOT_PATH}", impersonated_reply(expires=expires))
    document: dict[str, object] = {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": ROBOT_URL,
        "source_credentials": user(),
    }
    with pytest.raises(ProvideError, match="expireTime"):
        token_of(document)


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
        (
            external_account({"file": "/x"}, token_url="http://sts.example.com/"),
            "token_url is not an https://",
        ),
        (external_account({"file": "/x"}, audience=""), "audience is missing"),
    ],
)
def test_files_of_another_kind_are_explained(document: dict[str, object], words: str) -> None:
    """What was found, and what was expected."""
    with pytest.raises(ProvideError, match=words) as caught:
        token_of(document)
    assert "secret-mark" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", '"secret-mark"'])
def test_a_file_that_is_no_object_is_named_and_not_quoted(tmp_path: Path, content: str) -> None:
    """It may be a key all the same."""
    path = tmp_path / "key.json"
    path.write_text(content)
    with pytest.raises(ProvideError, match=r"key\.json.* is not a JSON object") as caught:
        default_token(calls_of(GOOGLE_APPLICATION_CREDENTIALS=str(path)), SCOPES)
    assert "secret-mark" not in str(caught.value)


def test_gclouds_folder_can_be_elsewhere(world: World) -> None:
    """CLOUDSDK_CONFIG, which only newer libraries honour, and upstream's does not."""
    world.write("sdk/application_default_credentials.json", user())
    world.on(f"POST {OAUTH}/token", token_reply(ACCESS_TOKEN))
    environ = {"CLOUDSDK_CONFIG": str(world.folder / "sdk"), "HOME": str(world.folder)}
    assert default_token(calls_of(**environ), SCOPES).value == ACCESS_TOKEN
    compat = Calls(
        deadline=Deadline(30),
        environ={"NO_GCE_CHECK": "true", **environ},
        now=lambda: NOW,
        retry=ONCE,
        is_compat=True,
    )
    with pytest.raises(ProvideError, match="no application default credentials"):
        default_token(compat, SCOPES)


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
    calls = Calls(deadline=Deadline(30), environ={}, retry=ONCE)
    with pytest.raises(ProvideError, match="invalid_request") as caught:
        token_from(CredentialFile(where="the file", members=documents[kind]), calls, ("scope",))
    told = f"{caught.value} {caught.value!r} {caught.value.hint}"
    assert caught.value.__context__ is None
    assert not [mark for mark in MARKS if mark in told]
    assert "eyJ" not in told
    assert "Basic Y" not in told


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (3599, 3599),
        (1.5, 1.5),
        ("3599", 3599),
        (10**30, MAX_LIFETIME_SECONDS),
        (float("inf"), MAX_LIFETIME_SECONDS),
        ("999999999999", MAX_LIFETIME_SECONDS),
    ],
)
def test_a_lifetime_is_believed_up_to_twelve_hours(value: object, seconds: float) -> None:
    """Number or digits."""
    assert lifetime(value) == seconds


@pytest.mark.parametrize("value", [None, True, 0, -5, "", "-5", "1e3", "٣", "9" * 13, float("nan"), [], {}])
def test_what_is_no_lifetime_is_none(value: object) -> None:
    """Nothing is made of it."""
    assert lifetime(value) is None


@pytest.mark.parametrize("value", [None, 5, "", "2025-06-15", "2025-06-15T16:00:00"])
def test_what_is_no_time_is_none(value: object) -> None:
    """A time has a zone."""
    assert read_time(value) is None


def test_a_time_is_in_unix_seconds() -> None:
    """Zone and fraction included."""
    assert read_time("2025-06-15T18:00:00.5+02:00") == 1_750_003_200.5 - 7_200 + 7_200


@pytest.mark.parametrize(
    "secret",
    [
        "ya29.a0AfH6SM-x_y",
        "1//0gSecretRefresh",
        "GOCSPX-abc_def-1",
        "eyJhbGciOiJSUzI1NiJ9.e30.sig",
        "plain-known",
    ],
)
def test_no_secret_is_shown(secret: str) -> None:
    """Google's shapes, web tokens, and what is known to be one."""
    shown = told(f"bad <{secret}> here", ("plain-known",))
    assert secret not in shown
    assert shown.startswith("bad <")
    assert shown.endswith("> here")


def test_a_known_secret_is_masked_as_a_whole() -> None:
    """Also where a part of it looks like a token, and the rest like nothing."""
    assert told("found ya29.begin,and-the-end there", ("ya29.begin,and-the-end",)) == "found ******** there"


def test_what_a_server_says_is_bounded_and_printable() -> None:
    """One line without control characters."""
    assert told("a\x1b[2Jb\n  c" + "x " * 500).startswith("a\ufffd[2Jb c")
    assert len(told("x " * 500)) < 310


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error": "invalid_grant", "error_description": "Bad Request"}', " (invalid_grant: Bad Request)"),
        (b'{"error": {"status": "DENIED", "message": "no", "secret": "x"}}', " (DENIED: no)"),
        (b'{"error": 5, "secret": "x"}', ""),
        (b"<html>secret</html>", ""),
    ],
)
def test_only_known_fields_of_an_error_are_shown(body: bytes, reason: str) -> None:
    """Never the body."""
    error = refusal(
        HttpReply(url="https://x/token", status=400, headers=(), body=body), "no token", "do that"
    )
    assert str(error) == f"no token: https://x/token answered status 400{reason}; do that"


def test_values_that_hold_secrets_do_not_show_them() -> None:
    """A repr ends up in logs."""
    values = (
        Token(value="secret-mark"),
        CredentialFile(where="x", members=user()),
        Calls(deadline=Deadline(1), environ={"A": "secret-mark"}),
    )
    assert "mark" not in repr(values)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1.evil.com/",
        "http://localhost.evil.com/",
        "http://127..1/",
        "http://127.999.1.1/",
        "http://127.0.0.1@evil.com/",
        "http://evil.com/?https://",
        "HTTP://evil.com",
        "https:/evil.com",
        "",
        "ftp://127.0.0.1/",
    ],
)
def test_a_secret_goes_over_tls_or_stays_on_this_machine(url: str) -> None:
    """By the URL's host, not by how it begins."""
    with pytest.raises(ProvideError, match="not an https:// URL"):
        check_endpoint(url, "here")


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example.com/",
        "http://127.0.0.1:80/",
        "http://localhost/",
        "http://LocalHost/",
        "http://[::1]:8/",
    ],
)
def test_tls_and_loopback_are_fine(url: str) -> None:
    """The URL is given back."""
    assert check_endpoint(url, "here") == url


# Far more than any deadline here, far less than what a hang would take.


@pytest.mark.parametrize(
    "reply",
    [Reply(after=3), Reply(503, headers={"Retry-After": "40"}), Reply(is_endless=True)],
    ids=["slow", "asks to wait", "endless"],
)
def test_nothing_waits_past_the_deadline(world: World, reply: Reply) -> None:
    """A slow answer, a wait that does not fit, a body without an end."""
    world.on(f"GET {ACCOUNT}/token", reply)
    environ = {"GCE_METADATA_HOST": f"127.0.0.1:{world.metadata.port}"}
    with pytest.raises(ProvideError):
        fetch_metadata_token(Calls(deadline=Deadline(0.5), environ=environ, retry=Retry()))


def test_a_probe_gives_up_soon() -> None:
    """A machine that is not Google's may have a silent address there."""
    with serving(lambda _: Reply(after=3)) as silent:
        calls = Calls(deadline=Deadline(0.5), environ={"GCE_METADATA_IP": f"127.0.0.1:{silent.port}"})
        assert not is_on_gce(calls)


def test_the_server_that_names_itself_is_found() -> None:
    """By its header, not by its address."""
    named = Reply(headers={"Metadata-Flavor": "Google"})
    with serving(lambda _: named) as server:
        assert is_on_gce(
            Calls(deadline=Deadline(10), environ={"GCE_METADATA_IP": f"127.0.0.1:{server.port}"})
        )


@pytest.mark.parametrize("host", ["http://127.0.0.1", "127.0.0.1/x", "a@b", "a b", "a?b"])
def test_a_metadata_host_is_a_host(host: str) -> None:
    """And not a URL, nor a part of one."""
    with pytest.raises(ProvideError, match="GCE_METADATA_HOST"):
        fetch_metadata_token(Calls(deadline=Deadline(1), environ={"GCE_METADATA_HOST": host}))
