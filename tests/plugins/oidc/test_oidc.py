"""keyferry-oidc run as kubectl runs it, against an issuer that checks what it is sent."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from support.fake_cloud import Received, Reply
from support.fake_issuer import CLIENT, KEYS, SECRET, FakeIssuer, challenge_of, device, refused, sign
from support.oidc_plugin import BY_PASSWORD, INTERACTIVE, Ask, failure
from support.reference import ask_cluster, run_plugin

AS_CLIENT = ("--grant-type", "client-credentials")
BY_DEVICE = ("--grant-type", "device-code")


def test_a_client_gets_a_token_by_its_secret(issuer: FakeIssuer, ask: Ask) -> None:
    """The secret goes into the Authorization header, escaped as a form's field, and the token comes back."""
    expected = int(time.time()) + 300
    issuer.give("/token", issuer.tokens(sign(issuer.claims(exp=expected))))
    extra = ("--oidc-extra-scope", "api,groups", "--oidc-auth-request-extra-params", "audience=kube,x=y")
    answer = ask(*AS_CLIENT, *extra, secret=SECRET)
    assert answer.login_status == {
        "expirationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expected)),
        "token": answer.login_status["token"],
    }
    assert answer.document["apiVersion"] == "client.authentication.k8s.io/v1"
    (request,) = issuer.asked("/token")
    pair = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
    assert pair == f"{CLIENT}:s3cret%2Fwith%3Aodd+chars"
    assert request.form == {
        "grant_type": "client_credentials",
        "audience": "kube",
        "x": "y",
        "scope": "api groups openid",
    }


def test_the_secret_goes_into_the_body_where_the_issuer_wants_it_there(issuer: FakeIssuer, ask: Ask) -> None:
    """What the issuer lists decides; a header would be refused."""
    issuer.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post", "private_key_jwt"]
    assert ask(*AS_CLIENT, secret=SECRET).login_status["token"]
    (request,) = issuer.asked("/token")
    assert "authorization" not in request.headers
    assert (request.form["client_id"], request.form["client_secret"]) == (CLIENT, SECRET)


def test_the_other_way_is_tried_where_the_issuer_does_not_say(issuer: FakeIssuer, ask: Ask) -> None:
    """Only if it is the client that was refused."""
    issuer.give("/token", refused("invalid_client", status=401), issuer.tokens())
    assert ask(*AS_CLIENT, secret=SECRET).login_status["token"]
    assert ["authorization" in request.headers for request in issuer.asked("/token")] == [True, False]
    issuer.received.clear()
    issuer.give("/token", refused("invalid_scope"))
    assert "check --oidc-extra-scope" in failure(ask(*AS_CLIENT, secret=SECRET))
    assert len(issuer.asked("/token")) == 1


def test_a_client_that_can_only_sign_is_told(issuer: FakeIssuer, ask: Ask) -> None:
    """No secret is sent to an issuer that takes none."""
    issuer.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    assert "does not accept a client secret, only private_key_jwt" in failure(ask(*AS_CLIENT, secret=SECRET))
    assert issuer.asked("/token") == []


def test_a_wrong_secret_is_a_failure_with_advice_and_without_the_secret(issuer: FakeIssuer, ask: Ask) -> None:
    """Even if the issuer repeats it."""
    issuer.give("/token", refused("invalid_client", f"the secret {SECRET} is wrong", 401))
    said = failure(ask(*AS_CLIENT, secret=SECRET))
    assert "invalid_client" in said
    assert "compare the client at the issuer with --oidc-client-id and --oidc-client-secret" in said


@pytest.mark.parametrize("document", [{"error": "slow_down"}, {}], ids=["reason", "no reason"])
def test_the_pause_that_the_issuer_asks_for_is_passed_on(
    issuer: FakeIssuer, ask: Ask, document: dict[str, object]
) -> None:
    """Whether it gives a reason or not."""
    issuer.give("/token", Reply(429, document, headers={"Retry-After": "600"}))
    assert failure(ask(*AS_CLIENT, secret=SECRET)).endswith("keyferry-oidc: retry after 600 s\n")


def test_an_answer_without_an_id_token_says_what_to_do(issuer: FakeIssuer, ask: Ask) -> None:
    """Most issuers give a client no ID token."""
    issuer.give("/token", Reply(document={"access_token": "opaque"}))
    assert "add --oidc-use-access-token" in failure(ask(*AS_CLIENT, secret=SECRET))


@pytest.mark.parametrize("mode", [[], ["--compat"]])
def test_a_clients_access_token_is_taken_as_it_is(issuer: FakeIssuer, ask: Ask, mode: Sequence[str]) -> None:
    """It is for the cluster, not for the client, so its audience and signature are the cluster's to judge."""
    token = sign(issuer.claims(aud="kubernetes", exp=int(time.time()) + 60), key=KEYS[1])
    issuer.give("/token", issuer.tokens(access_token=token))
    cache = ["--token-cache-storage", "none"]
    answer = ask(*AS_CLIENT, "--oidc-use-access-token", *cache, *mode, secret=SECRET)
    assert answer.login_status["token"] == token
    (request,) = issuer.asked("/token")
    assert request.form.get("scope") == ("openid" if mode else None)


def test_an_opaque_access_token_is_taken_but_for_compat(issuer: FakeIssuer, ask: Ask) -> None:
    """A cluster may ask a webhook about it; upstream insists on a JSON web token."""
    issuer.give("/token", issuer.tokens(access_token="opaque-token", expires_in="300"))
    args = (*AS_CLIENT, "--oidc-use-access-token", "--token-cache-storage=none")
    answer = ask(*args, secret=SECRET)
    assert answer.login_status["token"] == "opaque-token"
    assert "expirationTimestamp" in answer.login_status
    assert "is not a JSON web token" in failure(ask(*args, "--compat", secret=SECRET))


def test_a_users_access_token_is_verified_but_for_its_audience(issuer: FakeIssuer, ask: Ask) -> None:
    """It may be for another audience, not from another issuer or with another signature."""
    good = sign(issuer.claims(aud="kubernetes"))
    issuer.give("/token", issuer.tokens(access_token=good))
    assert ask(*BY_PASSWORD, "--oidc-use-access-token").login_status["token"] == good
    issuer.give("/token", issuer.tokens(access_token=sign(issuer.claims(), key=KEYS[1])))
    assert "signature is not confirmed" in failure(ask(*BY_PASSWORD, "--oidc-use-access-token"))


def test_a_user_gets_a_token_by_name_and_password(issuer: FakeIssuer, ask: Ask) -> None:
    """A user name alone means this grant; a client without a secret names itself in the body."""
    assert ask(*BY_PASSWORD[2:]).login_status["token"]
    (request,) = issuer.asked("/token")
    assert request.form == {
        "grant_type": "password",
        "username": "alice",
        "password": "pass-word",
        "scope": "openid",
        "client_id": CLIENT,
    }


def test_what_is_missing_is_asked_for_where_somebody_is_there(issuer: FakeIssuer, ask: Ask) -> None:
    """On standard error; what is typed goes to the issuer and nowhere else."""
    issuer.give("/token", issuer.tokens(), refused("invalid_grant", "pass-word is wrong"))
    answer = ask("--grant-type=password", exec_info=INTERACTIVE, stdin="alice\npass-word\n")
    assert answer.login_status["token"]
    assert answer.stderr == "Username: Password: "
    (request,) = issuer.asked("/token")
    assert (request.form["username"], request.form["password"]) == ("alice", "pass-word")
    said = failure(ask("--username=alice", exec_info=INTERACTIVE, stdin="pass-word\n"))
    assert "invalid_grant" in said
    assert "pass-word" not in said
    assert "the user cannot be asked" in failure(ask("--username=alice"))


def test_a_code_is_shown_and_waited_for(issuer: FakeIssuer, ask: Ask) -> None:
    """Pending, then told to slow down, then there: one request after the other, the device code shown to nobody."""
    complete = f"{issuer.url}/activate?user_code=WDJB-MJHT"
    issuer.give("/device", device(issuer, verification_uri_complete=complete))
    issuer.give("/token", refused("authorization_pending"), issuer.tokens())
    scopes = ("--oidc-extra-scope=groups", "--oidc-auth-request-extra-params=audience=kube")
    answer = ask(*scopes, exec_info=INTERACTIVE)
    assert answer.login_status["token"]
    assert "WDJB-MJHT" in answer.stderr
    assert f"{issuer.url}/activate\n" in answer.stderr
    assert complete in answer.stderr
    assert "secret-device-code" not in answer.stderr + answer.stdout
    (start,) = issuer.asked("/device")
    assert start.form == {"scope": "groups openid", "audience": "kube", "client_id": CLIENT}
    assert [request.form for request in issuer.asked("/token")] == [
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
            "device_code": "secret-device-code",
            "client_id": CLIENT,
        }
    ] * 2


def test_a_confidential_client_shows_its_secret_with_the_device_too(issuer: FakeIssuer, ask: Ask) -> None:
    """With a secret, the device endpoint and the token endpoint both see it; upstream puts it into the body."""
    issuer.give("/device", device(issuer))
    assert ask(*BY_DEVICE, secret=SECRET, exec_info=INTERACTIVE).login_status["token"]
    assert all("authorization" in request.headers for request in issuer.received if request.method == "POST")
    issuer.received.clear()
    assert ask(*BY_DEVICE, "--compat", "--token-cache-storage=none", secret=SECRET).login_status["token"]
    assert issuer.asked("/device")[0].form["client_secret"] == SECRET
    assert "authorization" in issuer.asked("/token")[0].headers


@pytest.mark.parametrize(
    ("code", "said"),
    [("access_denied", "and approve"), ("expired_token", "enter the code in time"), ("odd", "odd")],
)
def test_a_refused_code_ends_the_wait(issuer: FakeIssuer, ask: Ask, code: str, said: str) -> None:
    """Whatever is not a request for patience is final."""
    issuer.give("/device", device(issuer))
    issuer.give("/token", refused("authorization_pending"), refused(code))
    assert said in failure(ask(*BY_DEVICE, exec_info=INTERACTIVE))
    assert len(issuer.asked("/token")) == 2


def test_nobody_enters_the_code(issuer: FakeIssuer, ask: Ask) -> None:
    """The wait ends with the code's own lifetime, or when the user said."""
    issuer.give("/token", refused("authorization_pending"))
    issuer.give("/device", device(issuer, expires_in=2))
    assert "was not entered within 2 seconds" in failure(ask(*BY_DEVICE, exec_info=INTERACTIVE))
    issuer.give("/device", device(issuer))
    assert "within 2 seconds" in failure(
        ask(*BY_DEVICE, "--authentication-timeout-sec", "2", exec_info=INTERACTIVE)
    )


@pytest.mark.parametrize("args", [(), BY_DEVICE], ids=["auto", "by name"])
def test_a_code_that_nobody_could_read_is_not_waited_for(
    issuer: FakeIssuer, ask: Ask, args: tuple[str, ...]
) -> None:
    """Without a terminal it fails at once and says what to do; no code is asked for."""
    issuer.give("/device", device(issuer))
    issuer.give("/token", refused("authorization_pending"))
    said = failure(ask(*args))
    assert "nobody can read it" in said
    assert "--wait-for-login" in said
    assert issuer.asked("/device") == issuer.asked("/token") == []


def test_who_says_so_waits_without_a_terminal(issuer: FakeIssuer, ask: Ask) -> None:
    """The code may be read in a log."""
    issuer.give("/device", device(issuer))
    answer = ask(*BY_DEVICE, "--wait-for-login")
    assert answer.login_status["token"]
    assert "To log in" in answer.stderr


@pytest.mark.parametrize(
    "changes",
    [
        {"verification_uri": "http://phish.example/activate"},
        {"verification_uri_complete": "http://phish.example/activate"},
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": None},
        {"user_code": None},
        {"device_code": 7},
    ],
    ids=str,
)
def test_a_user_is_sent_nowhere_unsafe(issuer: FakeIssuer, ask: Ask, changes: dict[str, object]) -> None:
    """A page to log in at is https, and there."""
    issuer.give("/device", device(issuer, **changes))
    answer = ask(*BY_DEVICE, exec_info=INTERACTIVE)
    failure(answer)
    assert "To log in" not in answer.stderr
    assert issuer.asked("/token") == []


def test_an_old_name_of_the_page_is_understood_and_controls_do_not_reach_the_terminal(
    issuer: FakeIssuer, ask: Ask
) -> None:
    """What an issuer writes cannot move a cursor or colour a terminal."""
    code = "AB\x1b[31mCD\r\n\u202eEF"
    issuer.give(
        "/device", device(issuer, verification_uri=None, verification_url=f"{issuer.url}/a", user_code=code)
    )
    answer = ask(*BY_DEVICE, exec_info=INTERACTIVE)
    assert answer.login_status["token"]
    assert "AB[31mCDEF" in answer.stderr
    assert "\x1b" not in answer.stderr


def test_a_pasted_code_is_traded_with_its_verifier(issuer: FakeIssuer, ask: Ask) -> None:
    """The user goes to a URL with a challenge, and what is sent with the code answers it."""
    seen: list[Received] = []

    def trade(request: Received) -> Reply:
        seen.append(request)
        return refused("invalid_grant", "no such code")

    issuer.give("/token", trade)
    answer = ask(
        "--grant-type=authcode-keyboard",
        "--oidc-redirect-url=https://example.com/cb",
        exec_info=INTERACTIVE,
        stdin="pasted-code\n",
    )
    assert "no such code" in failure(answer)
    (request,) = seen
    assert request.form["code"] == "pasted-code"
    assert request.form["redirect_uri"] == "https://example.com/cb"
    assert f"code_challenge={challenge_of(request.form['code_verifier'])}&" in answer.stderr
    assert f"{issuer.url}/authorize?response_type=code&client_id={CLIENT}&" in answer.stderr


def test_a_token_of_another_login_is_refused(issuer: FakeIssuer, ask: Ask) -> None:
    """One whose nonce is not ours, and a pasted URL whose state is not ours."""
    issuer.give("/token", issuer.tokens(sign(issuer.claims(nonce="other"))))
    keyboard = "--grant-type=authcode-keyboard"
    said = failure(ask(keyboard, exec_info=INTERACTIVE, stdin="code\n"))
    assert "its nonce differs" in said
    said = failure(ask(keyboard, exec_info=INTERACTIVE, stdin="https://x/?code=c&state=evil\n"))
    assert "its state differs" in said


def test_a_browser_on_this_machine_is_declined_with_the_alternative(issuer: FakeIssuer, ask: Ask) -> None:
    """Asked for by name, or by what auto means upstream."""
    assert "use --grant-type device-code" in failure(ask("--grant-type=authcode"))
    assert "use --grant-type device-code" in failure(ask("--compat", "--token-cache-storage=none"))
    assert issuer.asked("/token") == []


def test_without_a_device_endpoint_a_secret_means_that_the_client_acts_for_itself(
    issuer: FakeIssuer, ask: Ask
) -> None:
    """Of the ways that auto can take, the one that is left."""
    issuer.metadata["device_authorization_endpoint"] = None
    assert ask(secret=SECRET).login_status["token"]
    assert issuer.asked("/token")[0].form["grant_type"] == "client_credentials"
    assert "offers no device code login" in failure(ask(exec_info=INTERACTIVE))


def test_many_at_once_cause_one_login(issuer: FakeIssuer, ask: Ask, tmp_path: Path) -> None:
    """Those that come while one logs in wait for it, and answer with the token it got."""
    args = (*BY_PASSWORD, "--token-cache-dir", str(tmp_path / "cache"))
    issuer.give("/token", replace(issuer.tokens(), after=1.0))
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda _: ask(*args), range(4))]
    assert len({answer.login_status["token"] for answer in answers}) == 1
    assert len(issuer.asked("/token")) == 1


def test_flags_of_upstream_are_taken(ask: Ask) -> None:
    """A kubeconfig that was written for kubelogin works as it is, browser settings and all."""
    upstream = ["--listen-address", "127.0.0.1:18000", "--skip-open-browser", "--v=4", "--oidc-use-pkce"]
    assert ask(*BY_PASSWORD, *upstream).login_status["token"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "--oidc-issuer-url is missing"),
        (["--oidc-issuer-url=https://i"], "--oidc-client-id is missing"),
        (["--oidc-issuer-url=http://issuer.example", "--oidc-client-id=x"], "expected an https URL"),
        (["--oidc-issuer-url=http://127.0.0.1.example", "--oidc-client-id=x"], "expected an https URL"),
        (["--oidc-issuer-url=ftp://i", "--oidc-client-id=x"], "is not an http:// or https:// URL"),
        (["--oidc-issuer-url=https://me:pw@i", "--oidc-client-id=x"], "has user info"),
        (["--oidc-issuer-url=https://i/?a", "--oidc-client-id=x"], "has user info, a query"),
        (["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--token-cache-storage=keyring"], "use disk"),
        (["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--oidc-request-header=oops"], "without '='"),
        (
            ["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--oidc-request-header=a=b\r\nc"],
            "has characters that are not valid in a header",
        ),
        (["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--certificate-authority=/no"], "cannot be read"),
        (["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--certificate-authority-data=!"], "not base64"),
        (["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--certificate-authority-data=eHg="], "in PEM"),
        (["--oidc-issuer-url=https://i", "--oidc-client-id=x", "--authentication-timeout-sec=-1"], "seconds"),
        (["--oidc-client-secret=a", "--oidc-client-secret-file=b", "--oidc-issuer-url=https://i",
          "--oidc-client-id=x"], "both given"),
        (["setup"], "unknown command 'setup'"),
        (["--grant-type=nonsense"], "expected one of auto"),
    ],
)  # fmt: skip
def test_wrong_flags_are_explained(args: list[str], said: str) -> None:
    """Before anything is sent anywhere; a password in a URL is not repeated."""
    answer = ask_cluster("oidc", args=args)
    assert answer.status != 0
    assert answer.stdout == ""
    assert said in answer.stderr
    assert "pw" not in answer.stderr


def test_both_spellings_of_the_command_are_taken_and_help_names_every_flag() -> None:
    """``keyferry-oidc get-token`` and, as with kubectl's plugin, ``oidc-login get-token``."""
    for words in ([], ["get-token"], ["oidc-login", "get-token"]):
        assert "--oidc-issuer-url is missing" in run_plugin("oidc", "", words, None).stderr
    shown = run_plugin("oidc", "", ["--help"], None)
    assert shown.status == 0
    assert "--token-cache-dir" in shown.stdout
