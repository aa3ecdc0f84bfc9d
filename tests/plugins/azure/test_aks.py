"""keyferry-aks run as kubectl runs it: each way to log in of programs, and what Entra refuses with."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from keyferry.sdk import ProvideError
from keyferry_plugins.azure.signatures import make_proof
from support import azure_cloud as cloud
from support.azure_aks import NAMED, SCOPE, TOKEN_PATH, ask, form_answers
from support.azure_certificates import PASSWORD, decode, make_certified
from support.azure_cloud import CLIENT, ENTRA, SERVER_ID, TENANT, Azure
from support.fake_cloud import Received, Reply

SECRET_FORM = {
    "grant_type": "client_credentials",
    "client_id": CLIENT,
    "client_secret": cloud.CLIENT_SECRET,
    "scope": SCOPE,
}
SPN = (*NAMED, "--login", "spn")
SECRET = {"AZURE_CLIENT_SECRET": cloud.CLIENT_SECRET}


@pytest.mark.parametrize("command", [(), ("get-token",)], ids=["plain", "get-token"])
def test_a_client_secret_logs_in(azure: Azure, command: tuple[str, ...]) -> None:
    """The token and its end come out on one line."""
    azure.on(ENTRA, form_answers(SECRET_FORM))
    answer = ask(azure, *command, *SPN, env=SECRET)
    assert answer.document["apiVersion"] == "client.authentication.k8s.io/v1"
    assert answer.login_status["token"] == cloud.ENTRA_TOKEN
    assert answer.login_status["expirationTimestamp"] > time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    assert answer.stdout.count("\n") == 1


@pytest.mark.parametrize(("exec_info", "version"), [(None, "v1beta1"), ("v1beta1", "v1beta1"), ("v1", "v1")])
def test_the_answer_has_the_version_that_was_asked_for(
    azure: Azure, exec_info: str | None, version: str
) -> None:
    """Without one it is v1beta1."""
    azure.on(ENTRA, form_answers(SECRET_FORM))
    answer = ask(azure, *SPN, env=SECRET, exec_info=exec_info)
    assert answer.document["apiVersion"] == f"client.authentication.k8s.io/{version}"


def test_a_version_nobody_knows_is_refused_before_anyone_is_asked(azure: Azure) -> None:
    assert ask(azure, *SPN, env=SECRET, exec_info='{"apiVersion": "foo/v1"}').status == 1
    assert azure.asked == []


@pytest.mark.parametrize("form", ["pem", "pfx"])
@pytest.mark.parametrize("is_legacy", [False, True], ids=["v2", "legacy"])
def test_a_certificate_logs_in(azure: Azure, tmp_path: Path, form: str, *, is_legacy: bool) -> None:
    """The assertion's audience is the endpoint it goes to; the first version gets RS256."""
    certified = make_certified()
    path = certified.write_pem(tmp_path) if form == "pem" else certified.write_pfx(tmp_path)
    target = f"/{TENANT}/oauth2/token?api-version=1.0" if is_legacy else TOKEN_PATH

    def answer(received: Received) -> Reply:
        assert (received.method, received.target) == ("POST", target)
        named = {"resource": SERVER_ID} if is_legacy else {"scope": SCOPE}
        sent = received.form
        certified.check(sent.pop("client_assertion"), CLIENT, f"https://{ENTRA}{target}", is_old=is_legacy)
        assert sent == {
            "grant_type": "client_credentials",
            "client_id": CLIENT,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            **named,
        }
        return cloud.token_reply()

    azure.on(ENTRA, answer)
    args = [*SPN, "--client-certificate", path, *(["--legacy"] if is_legacy else [])]
    env = {"AZURE_CLIENT_CERTIFICATE_PASSWORD": PASSWORD} if form == "pfx" else {}
    assert ask(azure, *args, env=env).login_status["token"] == cloud.ENTRA_TOKEN


def test_legacy_logs_in_at_the_first_version_of_the_endpoint(azure: Azure) -> None:
    """With a resource in place of a scope, and times as text."""
    form = {name: value for name, value in SECRET_FORM.items() if name != "scope"} | {"resource": SERVER_ID}
    reply = cloud.token_reply(expires_on="4102444800", expires_in="3599")
    azure.on(ENTRA, form_answers(form, reply, f"/{TENANT}/oauth2/token?api-version=1.0"))
    status = ask(azure, *SPN, "--legacy", env=SECRET).login_status
    assert status["expirationTimestamp"] == "2100-01-01T00:00:00Z"


NO_TIMES: list[object] = [True, None, "", "soon", "1/2/3", "1/2/2030 x:00:00", -1, 10**30, "9" * 40, []]


@pytest.mark.parametrize(
    ("instant", "hours"),
    [
        (1893456000, 0),
        ("1893456000", 0),
        (1893456000.5, 0),
        ("2030-01-01T00:00:00Z", 0),
        ("2030-01-01T01:00:00+01:00", 0),
        ("1/1/2030 12:00:00 AM +00:00", 0),
        ("1/1/2030 1:00:00 PM +00:00", 13),
        ("12/31/2029 23:00:00 PM +00:00", -1),
        ("1/1/2030 00:00:00 +00:00", 0),
        *((odd, None) for odd in NO_TIMES),
        (f"1/2/2030 {5000 * '9'}:00:00 PM", None),
    ],
)
def test_a_tokens_end_comes_in_many_forms(azure: Azure, instant: object, hours: int | None) -> None:
    """Numbers, numbers as text, dates; anything else is no time, and then the lifetime counts."""
    azure.on(ENTRA, cloud.token_reply(expires_on=instant, expires_in="600"))
    found = ask(azure, *SPN, env=SECRET).login_status["expirationTimestamp"]
    end = datetime.fromisoformat(found)
    if hours is None:
        assert 500 < end.timestamp() - time.time() <= 600
    else:
        assert end.timestamp() == datetime(2030, 1, 1, tzinfo=UTC).timestamp() + hours * 3600


def test_a_token_without_an_end_has_none(azure: Azure) -> None:
    azure.on(ENTRA, Reply(document={"access_token": cloud.ENTRA_TOKEN}))
    assert ask(azure, *SPN, env=SECRET).login_status == {"token": cloud.ENTRA_TOKEN}


def test_a_bound_token_is_signed_by_the_key_it_names(azure: Azure) -> None:
    """Proof of possession: the request names a key, and the answer is wrapped in a signature by that key."""
    azure.on(ENTRA, cloud.token_reply(token_type="pop"))
    answer = ask(azure, *SPN, "--pop-enabled", "--pop-claims", "u=/cluster/x, v=1", env=SECRET)
    sent = azure.sent(ENTRA)[0].form
    assert sent["token_type"] == "pop"
    said = json.loads(decode(sent["req_cnf"]))
    signed, _, signature = answer.login_status["token"].rpartition(".")
    header, claims = (json.loads(decode(part)) for part in signed.split("."))
    jwk = claims["cnf"]["jwk"]
    check_bound(jwk, signed, signature)
    assert header == {"alg": "RS256", "typ": "pop", "kid": said["kid"]}
    assert said == {"kid": jwk["kid"], "xms_ksl": "sw"}
    assert (claims["at"], claims["u"]) == (cloud.ENTRA_TOKEN, "/cluster/x")
    assert abs(claims["ts"] - time.time()) < 600
    assert len(claims["nonce"]) == 32


def check_bound(jwk: dict[str, str], signed: str, signature: str) -> None:
    """Judge a signature by the key in a token, and the key's name by its thumbprint."""
    numbers = [int.from_bytes(decode(jwk[name]), "big") for name in ("e", "n")]
    assert numbers[1].bit_length() == 2048
    key = rsa.RSAPublicNumbers(*numbers).public_key()
    key.verify(decode(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    canonical = json.dumps({name: jwk[name] for name in ("e", "kty", "n")}, separators=(",", ":"))
    assert decode(jwk["kid"]) == hashlib.sha256(canonical.encode()).digest()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, {}),
        ({"--client-id": CLIENT}, {"client_id": CLIENT}),
        ({"--identity-resource-id": "/subscriptions/x"}, {"msi_res_id": "/subscriptions/x"}),
        ({"--client-id": CLIENT, "--identity-resource-id": "/subscriptions/x"}, {"client_id": CLIENT}),
    ],
    ids=["system", "client ID", "resource ID", "both"],
)
def test_the_machines_identity_logs_in(azure: Azure, given: dict[str, str], named: dict[str, str]) -> None:
    """By its client ID, else its resource ID, else the system-assigned one; never through a proxy."""
    azure.on_imds(cloud.imds_answers(SERVER_ID, **named))
    args = [word for pair in given.items() for word in pair]
    answer = ask(azure, "--login", "msi", "--server-id", f"{SERVER_ID}/", *args)
    assert answer.login_status["token"] == cloud.ENTRA_TOKEN
    assert azure.asked == []


def test_a_variable_chooses_the_machines_identity(azure: Azure) -> None:
    """AZURE_CLIENT_ID, as the libraries of Azure have it."""
    azure.on_imds(cloud.imds_answers(SERVER_ID, client_id="other"))
    env = {"AZURE_CLIENT_ID": "other", "AAD_LOGIN_METHOD": "msi"}
    assert ask(azure, *NAMED, env=env).status == 0


@pytest.mark.parametrize("by", ["flag", "variables"])
def test_a_workload_logs_in_by_its_token_file(azure: Azure, tmp_path: Path, by: str) -> None:
    """The file, the client and the authority are those of the flags, or of the webhook's variables."""
    assertion = cloud.pod_token()
    path = tmp_path / "token"
    path.write_text(assertion)
    authority = "login.stack.example"
    azure.on(authority, cloud.federated_answers(assertion, scope=SCOPE))
    args: tuple[str, ...]
    if by == "flag":
        args = (*NAMED, "--federated-token-file", str(path), "--authority-host", f"https://{authority}/")
        env = {}
    else:
        args = ("--server-id", SERVER_ID, "--client-id", "overridden", "-t", "overridden")
        env = {
            "AZURE_CLIENT_ID": CLIENT,
            "AZURE_TENANT_ID": TENANT,
            "AZURE_FEDERATED_TOKEN_FILE": str(path),
            "AZURE_AUTHORITY_HOST": f"https://{authority}/",
        }
    assert ask(azure, *args, "-l", "workloadidentity", env=env).login_status["token"] == cloud.ENTRA_TOKEN


def test_a_workloads_token_is_not_shown(azure: Azure, tmp_path: Path) -> None:
    """Even if Entra quotes it, and it looks like nothing."""
    path = tmp_path / "token"
    path.write_text("podmarkopaque")
    azure.on(
        ENTRA, lambda received: cloud.refused(50027, text=f"bad {received.form['client_assertion']} here")
    )
    said = ask(azure, *NAMED, "-l", "workloadidentity", "--federated-token-file", str(path)).failure
    assert "bad ******** here" in said


def test_a_github_action_logs_in(azure: Azure, tmp_path: Path) -> None:
    """Its token comes from GitHub, which wins over a file."""
    assertion = cloud.pod_token()

    def answer(received: Received) -> Reply:
        assert received.method == "GET"
        assert received.target == "/mint?v=2&audience=api%3A%2F%2FAzureADTokenExchange"
        assert received.headers["authorization"] == "bearer requestmark"
        assert received.headers["accept"] == "application/json; api-version=2.0"
        return Reply(200, {"value": assertion, "count": 1})

    azure.on("token.actions.test", answer)
    azure.on(ENTRA, cloud.federated_answers(assertion, scope=SCOPE))
    env = {
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "requestmark",
        "ACTIONS_ID_TOKEN_REQUEST_URL": "https://token.actions.test/mint?v=2",
        "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "none"),
    }
    assert ask(azure, *NAMED, "-l", "workloadidentity", env=env).login_status["token"] == cloud.ENTRA_TOKEN
    azure.on("token.actions.test", Reply(403, {"message": "requestmark"}))
    refused = ask(azure, *NAMED, "-l", "workloadidentity", env=env)
    assert "id-token: write" in refused.stderr
    assert "requestmark" not in refused.stderr
    env["ACTIONS_ID_TOKEN_REQUEST_URL"] = "http://token.actions.test/mint"
    assert "is not an https:// URL" in ask(azure, *NAMED, "-l", "workloadidentity", env=env).failure


def test_an_azure_pipeline_logs_in(azure: Azure) -> None:
    """Its variables fill what the flags leave open, and override none of them."""
    assertion = cloud.pod_token()

    def answer(received: Received) -> Reply:
        assert (received.method, received.path) == ("POST", "/oidc")
        assert received.query == {"api-version": "7.1", "serviceConnectionId": "connection"}
        assert received.headers["authorization"] == "Bearer systemmark"
        assert received.headers["x-tfs-fedauthredirect"] == "Suppress"
        return Reply(200, {"oidcToken": assertion})

    azure.on("pipelines.test", answer)
    azure.on(ENTRA, cloud.federated_answers(assertion, scope=SCOPE))
    env = {
        "SYSTEM_ACCESSTOKEN": "systemmark",
        "SYSTEM_OIDCREQUESTURI": "https://pipelines.test/oidc",
        "AZURESUBSCRIPTION_CLIENT_ID": "not used",
        "AZURESUBSCRIPTION_TENANT_ID": TENANT,
        "AZURESUBSCRIPTION_SERVICE_CONNECTION_ID": "connection",
    }
    args = ("-l", "azurepipelines", "--server-id", SERVER_ID, "--client-id", CLIENT)
    assert ask(azure, *args, env=env).login_status["token"] == cloud.ENTRA_TOKEN
    del env["SYSTEM_ACCESSTOKEN"]
    assert "SYSTEM_ACCESSTOKEN is not set" in ask(azure, *args, env=env).failure


def write_program(folder: Path, name: str, expected: list[str], script: str) -> dict[str, str]:
    """A program that insists on its arguments and then runs *script*; gives the environment that finds it."""
    path = folder / name
    path.write_text(
        f"#!/usr/bin/env python3\nimport sys\nassert sys.argv[1:] == {expected!r}, sys.argv\n{script}\n"
    )
    path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "TZ": "UTC"}


@pytest.mark.parametrize(
    "end",
    ['"expires_on": 4102444800', '"expiresOn": "2100-01-01 00:00:00.000000"'],
    ids=["epoch", "local time"],
)
def test_the_login_of_az_is_used(azure: Azure, tmp_path: Path, end: str) -> None:
    """It is asked for the server's token, in the tenant and subscription given."""
    words = ["account", "get-access-token", "-o", "json", "--resource", SERVER_ID]
    words += ["--tenant", TENANT, "--subscription", "My Team (dev)"]
    env = write_program(
        tmp_path, "az", words, f"""print('{{"accessToken": "{cloud.ENTRA_TOKEN}", {end}}}')"""
    )
    status = ask(azure, *NAMED, "-l", "azurecli", "-s", "My Team (dev)", env=env).login_status
    assert status == {"token": cloud.ENTRA_TOKEN, "expirationTimestamp": "2100-01-01T00:00:00Z"}


def test_the_login_of_azd_is_used(azure: Azure, tmp_path: Path) -> None:
    """It is asked for the server's scope."""
    words = ["auth", "token", "-o", "json", "--no-prompt", "--scope", SCOPE]
    script = f"""print('{{"token": "{cloud.ENTRA_TOKEN}", "expiresOn": "2100-01-01T00:00:00Z"}}')"""
    env = write_program(tmp_path, "azd", words, script)
    status = ask(azure, "--server-id", SERVER_ID, "-l", "azd", env=env).login_status
    assert status == {"token": cloud.ENTRA_TOKEN, "expirationTimestamp": "2100-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sys.exit('please log in; token=entramarktoken')", "az ended with status 1: please log in"),
        ("print('entramarktoken')", "wrote no JSON object"),
        ("print('{\"accessToken\": 7}')", "wrote no JSON object"),
        ("print('x' * 2000000)", "more than"),
        ("import time; time.sleep(60)", "did not end in time"),
    ],
    ids=["status", "garbage", "number", "flood", "hang"],
)
def test_an_az_that_fails_is_explained(azure: Azure, tmp_path: Path, script: str, said: str) -> None:
    """Its complaint is passed on without what looks like a secret, and nothing else of it."""
    words = ["account", "get-access-token", "-o", "json", "--resource", SERVER_ID]
    env = write_program(tmp_path, "az", words, script)
    limit = "1s" if "sleep" in script else "60s"
    assert said in ask(azure, "--server-id", SERVER_ID, "-l", "azurecli", "--timeout", limit, env=env).failure


def test_az_is_not_handed_what_it_could_misread(azure: Azure, tmp_path: Path) -> None:
    """A subscription that looks like a flag or a shell's words is refused; a missing az is named."""
    env = {"PATH": str(tmp_path)}
    for value in ("--debug", "a;b", "a$(b)", "a\nb"):
        answer = ask(azure, "--server-id", SERVER_ID, "-l", "azurecli", "-s", value, env=env)
        assert "flag --subscription" in answer.stderr
    assert "'az' is not installed" in ask(azure, "--server-id", SERVER_ID, "-l", "azurecli", env=env).failure


@pytest.mark.parametrize(
    ("env", "args"),
    [
        (
            {
                "AAD_SERVICE_PRINCIPAL_CLIENT_ID": CLIENT,
                "AAD_SERVICE_PRINCIPAL_CLIENT_SECRET": cloud.CLIENT_SECRET,
            },
            (),
        ),
        ({"AZURE_CLIENT_ID": CLIENT, "AZURE_CLIENT_SECRET": cloud.CLIENT_SECRET}, ()),
        (
            {
                "AAD_SERVICE_PRINCIPAL_CLIENT_ID": "no",
                "AZURE_CLIENT_ID": CLIENT,
                "AZURE_CLIENT_SECRET": cloud.CLIENT_SECRET,
            },
            (),
        ),
        (
            {
                "AZURE_CLIENT_ID": "no",
                "ARM_CLIENT_ID": CLIENT,
                "ARM_CLIENT_SECRET": cloud.CLIENT_SECRET,
                "ARM_TENANT_ID": TENANT,
            },
            ("--use-azurerm-env-vars",),
        ),
    ],
    ids=["AAD", "AZURE", "both", "ARM"],
)
def test_variables_override_flags(azure: Azure, env: dict[str, str], args: tuple[str, ...]) -> None:
    """All three families of names, the later one winning."""
    azure.on(ENTRA, form_answers(SECRET_FORM))
    given = ("-l", "spn", "--server-id", SERVER_ID, "--client-id", "flag", "-t", TENANT, *args)
    assert ask(azure, *given, env=env).status == 0


def test_an_override_that_fails_is_named(azure: Azure) -> None:
    """Who sets a variable for another tool learns that it was used here, and how to stop that."""
    azure.on(ENTRA, cloud.refused(700016))
    answer = ask(azure, *SPN, env={**SECRET, "AZURE_CLIENT_ID": "other"})
    assert "--client-id is overridden by AZURE_CLIENT_ID" in answer.stderr
    assert "--disable-environment-override" in answer.stderr


def test_the_override_can_be_turned_off(azure: Azure) -> None:
    """Then only flags count."""
    azure.on(ENTRA, form_answers(SECRET_FORM))
    env = {"AZURE_CLIENT_ID": "other", "AAD_LOGIN_METHOD": "msi", "AZURE_TENANT_ID": "other"}
    args = ("--client-secret", cloud.CLIENT_SECRET, "--disable-environment-override")
    assert ask(azure, *SPN, *args, env=env).status == 0


def test_an_empty_variable_overrides_nothing_but_with_compat(azure: Azure) -> None:
    """As upstream, an empty AZURE_TENANT_ID takes the tenant away."""
    azure.on(ENTRA, form_answers(SECRET_FORM))
    env = {**SECRET, "AZURE_TENANT_ID": ""}
    assert ask(azure, *SPN, env=env).status == 0
    assert "needs --tenant-id" in ask(azure, *SPN, "--compat", env=env).failure


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-l", "unheard-of"), "is not one of devicecode"),
        (("-l", "interactive"), "--login devicecode"),
        (("--authority-host", "login.example/"), "--authority-host"),
        (("--authority-host", "http://login.example/"), "--authority-host"),
        (("--authority-host", "https://a b/"), "--authority-host"),
        (("--authority-host", "https://x/", "--compat", "--authority-host", "https://x"), "--authority-host"),
        (("--pop-enabled",), "--pop-claims"),
        (("--pop-claims", "u=x"), "--pop-enabled"),
        (("--pop-enabled", "--pop-claims", ""), "--pop-claims"),
        (("--pop-enabled", "--pop-claims", " "), "--pop-claims"),
        (("--pop-enabled", "--pop-claims", "a"), "--pop-claims"),
        (("--pop-enabled", "--pop-claims", "a=b"), "u=HOST"),
        (("--pop-enabled", "--pop-claims", "u=b", "-l", "msi"), "--pop-enabled is for login"),
        (("--timeout", "0s"), "--timeout"),
        (("--timeout", "soon"), "--timeout"),
        (("--server-id", ""), "--server-id is required"),
        (("--environment", "AzureMoonCloud"), "AzureMoonCloud"),
        (("--client-certificate", "/nowhere.pem"), "both are given"),
        (("--tenant-id", "../x"), "is neither an ID nor a domain name"),
        (("stray",), "'stray'"),
    ],
)
def test_what_cannot_be_meant_is_refused(azure: Azure, args: tuple[str, ...], said: str) -> None:
    """Each with the flag it is about, and before anyone is asked."""
    assert said in ask(azure, *SPN, *args, env=SECRET).failure
    assert azure.asked == []


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("AzureCloud", ENTRA),
        ("AzurePublic", ENTRA),
        ("AzurePublicCloud", ENTRA),
        ("azurepubliccloud", ENTRA),
        ("AzureUSGovernment", "login.microsoftonline.us"),
        ("AzureUSGovernmentCloud", "login.microsoftonline.us"),
        ("AzureChinaCloud", "login.chinacloudapi.cn"),
    ],
)
def test_each_cloud_has_its_own_authority(azure: Azure, name: str, host: str) -> None:
    """The secret goes there and nowhere else; the public cloud has several names, in any case of letters."""
    azure.on(host, form_answers(SECRET_FORM))
    assert ask(azure, *SPN, "-e", name, env=SECRET).status == 0
    assert set(azure.asked) == {f"{host}:443"}


def test_compat_takes_an_unknown_cloud_for_the_public_one(azure: Azure) -> None:
    """As upstream; AzureStackCloud too, whose file only ours reads."""
    azure.on(ENTRA, form_answers(SECRET_FORM))
    for name in ("AzureMoonCloud", "AzureStackCloud"):
        assert ask(azure, *SPN, "--compat", "-e", name, env=SECRET).status == 0
    assert "AZURE_ENVIRONMENT_FILEPATH" in ask(azure, *SPN, "-e", "AzureStackCloud", env=SECRET).failure


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (cloud.refused(7000215, text="bad secret clientmarksecret"), "not its ID"),
        (cloud.refused(7000222), "has expired"),
        (cloud.refused(500011, "invalid_resource", status=400), "--server-id"),
        (Reply(503), "status 503"),
        (Reply(429, headers={"Retry-After": "600"}), "keyferry-aks: retry after 600 s\n"),
        (Reply(200, {"access_token": None}), "without a usable 'access_token'"),
        (Reply(200, {"access_token": "entramarktoken x"}), "without a usable 'access_token'"),
        (
            Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nentramarktoken"),
            "two different lengths",
        ),
    ],
    ids=["secret", "expired", "server", "busy", "throttled", "null", "blank", "smuggled"],
)
def test_a_refusal_says_what_to_do(azure: Azure, reply: Reply, said: str) -> None:
    """And shows nothing that was sent, even if the server quotes it."""
    azure.on(ENTRA, reply)
    assert said in ask(azure, *SPN, env=SECRET).failure


@pytest.mark.parametrize(("module", "package"), [("cryptography", "cryptography"), ("jwt", "PyJWT")])
def test_without_the_packages_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    """A token bound to a key needs both, and says so before anything is asked for."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProvideError, match=rf"{package}.*'\.\[crypto\]'"):
        make_proof()
