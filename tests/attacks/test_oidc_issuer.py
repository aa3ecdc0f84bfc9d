"""An issuer that lies, or somebody in its place: nothing is taken that was not verified, and nothing waits forever."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyferry.sdk import ExecRequest, ExecResponse, HttpError, ProvideError
from keyferry.sdk.flags import parse_flags
from keyferry_plugins.oidc import provide
from keyferry_plugins.openid.options import FLAGS
from support.fake_cloud import Authority, Reply
from support.fake_issuer import CLIENT, KEYS, FakeIssuer, device, issuing, refused, sign

Ask = Callable[..., ExecResponse]


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[FakeIssuer]:
    with issuing(Authority(tmp_path)) as found:
        yield found


@pytest.fixture
def ask(issuer: FakeIssuer) -> Ask:
    """Ask for a token by password, which takes one request and no user."""

    def run(*args: str, url: str = "", trusted: str = "") -> ExecResponse:
        words = ["--oidc-issuer-url", url or issuer.url, "--oidc-client-id", CLIENT, "--username", "alice"]
        words += ["--password", "pass-word"]
        words += ["--certificate-authority", trusted] if trusted else issuer.trust
        return provide(ExecRequest(), parse_flags(FLAGS, [*words, *args]))

    return run


def test_the_right_token_is_taken(issuer: FakeIssuer, ask: Ask) -> None:
    """So that what follows fails for what is wrong, and not for all."""
    issuer.give("/token", issuer.tokens(sign(issuer.claims())))
    assert ask().token
    issuer.give("/token", issuer.tokens(sign(issuer.claims(aud=["x", CLIENT], azp=CLIENT), "ES256")))
    assert ask().token
    issuer.give("/token", issuer.tokens(sign(issuer.claims(nbf=time.time() + 60))))
    assert ask().token


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"iss": "https://evil.example"}, "from the issuer 'https://evil.example'"),
        ({"iss": None}, "has no iss"),
        ({"iss": ["https://evil.example"]}, "from the issuer"),
        ({"aud": "other"}, "is for 'other'"),
        ({"aud": ["other", "another"]}, "is for 'other, another'"),
        ({"aud": f"{CLIENT}-evil"}, "is for"),
        ({"aud": None}, "has no aud"),
        ({"aud": [CLIENT, "x"], "azp": "x"}, "issued to 'x'"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "has no exp"),
        ({"exp": "never"}, "has no exp"),
        ({"exp": True}, "has no exp"),
        ({"exp": 1e300}, "has no exp"),
        ({"exp": float("nan")}, "is not a JSON web token"),
        ({"nbf": 9e9}, "is not valid until"),
    ],
    ids=str,
)
def test_wrong_claims_are_refused(
    issuer: FakeIssuer, ask: Ask, changes: dict[str, object], said: str
) -> None:
    """Properly signed, and not for us, not from the issuer, or not now."""
    issuer.give("/token", issuer.tokens(sign(issuer.claims(**changes))))
    with pytest.raises(ProvideError) as caught:
        ask()
    assert said in str(caught.value)


@pytest.mark.parametrize("algorithm", ["none", "NONE", "None", "HS256", "RS512", "", "XX256"])
def test_signatures_by_other_algorithms_are_refused(issuer: FakeIssuer, ask: Ask, algorithm: str) -> None:
    """No signature at all, the public key as a shared secret, and what the issuer does not list."""
    issuer.give("/token", issuer.tokens(sign(issuer.claims(), algorithm)))
    with pytest.raises(ProvideError, match="the token is signed by"):
        ask()


def test_an_issuer_cannot_make_weak_algorithms_good_by_listing_them(issuer: FakeIssuer, ask: Ask) -> None:
    """Symmetric ones and none are refused although they are advertised."""
    issuer.metadata["id_token_signing_alg_values_supported"] = ["none", "HS256", "RS256"]
    for algorithm in ("none", "HS256"):
        issuer.give("/token", issuer.tokens(sign(issuer.claims(), algorithm)))
        with pytest.raises(ProvideError, match="the token is signed by"):
            ask()


def test_without_a_list_only_rs256_is_good(issuer: FakeIssuer, ask: Ask) -> None:
    """As OpenID Connect has it by default."""
    issuer.metadata["id_token_signing_alg_values_supported"] = None
    issuer.give("/token", issuer.tokens(sign(issuer.claims(), "ES256")))
    with pytest.raises(ProvideError, match="signed by 'ES256', expected one of RS256"):
        ask()
    issuer.give("/token", issuer.tokens(sign(issuer.claims())))
    assert ask().token


def test_another_key_and_a_changed_token_are_refused(issuer: FakeIssuer, ask: Ask) -> None:
    """A key of that name that is not the issuer's, claims under another token's signature, a cut signature."""
    good, other = sign(issuer.claims()), sign(issuer.claims(sub="admin"))
    grafted = ".".join([*other.split(".")[:2], good.split(".")[2]])
    for token in (sign(issuer.claims(), key=KEYS[1]), grafted, good[:-8], good.rpartition(".")[0] + "."):
        issuer.give("/token", issuer.tokens(token))
        with pytest.raises(ProvideError, match=r"signature is not confirmed|is not base64"):
            ask()


@pytest.mark.parametrize(
    "document", [{"keys": []}, {"keys": "x"}, {}, {"keys": [{"kty": "RSA", "n": "!", "e": "AQAB"}]}]
)
def test_without_good_keys_nothing_is_verified(
    issuer: FakeIssuer, ask: Ask, document: dict[str, object]
) -> None:
    """An empty or broken key set confirms nothing."""
    issuer.give("/keys", Reply(document=document))
    with pytest.raises(ProvideError, match=r"not confirmed|no list of keys"):
        ask()


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c.d", "...", "eyJhbGciOiJSUzI1NiJ9..", "x" * 100_000])
def test_what_is_no_token_is_refused(issuer: FakeIssuer, ask: Ask, token: str) -> None:
    """Empty, with too few or too many parts, or far too long."""
    issuer.give("/token", Reply(document={"id_token": token}))
    with pytest.raises(ProvideError):
        ask()


@pytest.mark.parametrize("name", ["id_token", "refresh_token", "access_token"])
def test_a_token_that_could_split_a_header_is_refused(issuer: FakeIssuer, ask: Ask, name: str) -> None:
    """Line breaks, other controls and wrong types do not get past the answer's reader."""
    for value in ("a\r\nX: y", "a b", "\u00e9", ["a"], 7):
        issuer.give("/token", Reply(document={"id_token": sign(issuer.claims()), name: value}))
        with pytest.raises(ProvideError, match=f"{name} in its response is not a string of visible ASCII"):
            ask()


@pytest.mark.parametrize("suffix", ["/", "/x", "?"])
def test_an_issuer_of_another_spelling_is_another_issuer(issuer: FakeIssuer, ask: Ask, suffix: str) -> None:
    """A document for a URL that only looks alike is refused, and no password is sent."""
    issuer.metadata["issuer"] = issuer.url + suffix
    with pytest.raises(ProvideError, match="expected exactly"):
        ask()
    assert issuer.asked("/token") == []


@pytest.mark.parametrize(
    "name", ["token_endpoint", "jwks_uri", "device_authorization_endpoint", "authorization_endpoint"]
)
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/token", "http://169.254.169.254/token", "ftp://x/token", "/token", "https://\r\nx"],
)
def test_endpoints_that_are_not_safe_are_refused(issuer: FakeIssuer, ask: Ask, name: str, url: str) -> None:
    """An https issuer leads neither to plain http, nor to this machine, nor to metadata services."""
    issuer.metadata[name] = url
    with pytest.raises(ProvideError):
        ask()
    assert [request.path for request in issuer.received] == ["/.well-known/openid-configuration"]


def test_a_redirect_is_not_followed(issuer: FakeIssuer, ask: Ask) -> None:
    """Neither with the discovery nor with a password in the form."""
    with issuing(None) as elsewhere:
        moved = Reply(307, headers={"Location": f"{elsewhere.url}/token"})
        issuer.give("/token", moved)
        with pytest.raises(ProvideError, match="refused the user name and password with status 307"):
            ask()
        issuer.discovery = moved
        with pytest.raises(ProvideError, match="it redirects, which is not followed"):
            ask()
        assert elsewhere.received == []


@pytest.mark.parametrize("path", ["discovery", "/token", "/keys"])
def test_an_endless_answer_is_cut_off(issuer: FakeIssuer, ask: Ask, path: str) -> None:
    """No endpoint can fill the memory."""
    endless = Reply(is_endless=True)
    if path == "discovery":
        issuer.discovery = endless
    else:
        issuer.give(path, endless)
    with pytest.raises(HttpError, match="longer than 1048576 bytes"):
        ask()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"<html>s3cret</html>", b'{"a":' * 30000, b"\xff\xfe{"])
def test_garbage_is_refused_and_not_quoted(issuer: FakeIssuer, ask: Ask, body: bytes) -> None:
    """What is not a JSON object is told as that."""
    issuer.give("/token", Reply(body=body))
    with pytest.raises(HttpError, match="not a JSON object") as caught:
        ask()
    assert "s3cret" not in str(caught.value)
    issuer.give("/token", Reply(400, body=body))
    with pytest.raises(ProvideError, match="status 400 and gave no reason") as refusal:
        ask()
    assert "s3cret" not in str(refusal.value)


def test_a_server_that_nobody_vouches_for_is_refused(
    issuer: FakeIssuer, ask: Ask, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A certificate of another authority, or for another name; unless the user says that any will do."""
    other = Authority(tmp_path_factory.mktemp("other"))
    with pytest.raises(HttpError, match="certificate is not trusted"):
        ask(trusted=str(other.bundle))
    assert issuer.received == []
    issuer.metadata["issuer"] = issuer.url
    assert ask("--insecure-skip-tls-verify", trusted=str(other.bundle)).token
    with issuing(issuer.authority, "other.example") as named:
        with pytest.raises(HttpError, match="certificate is not trusted"):
            ask(url=named.url)
        assert named.received == []


def test_a_bundle_in_base64_is_trusted(issuer: FakeIssuer) -> None:
    """As a kubeconfig has it."""
    data = base64.b64encode(issuer.authority.bundle.read_bytes()).decode()
    words = [
        "--oidc-issuer-url",
        issuer.url,
        "--oidc-client-id",
        CLIENT,
        "--username",
        "a",
        "--password",
        "b",
    ]
    assert provide(ExecRequest(), parse_flags(FLAGS, [*words, "--certificate-authority-data", data])).token


def test_an_error_of_the_issuers_cannot_forge_lines_or_show_secrets(issuer: FakeIssuer, ask: Ask) -> None:
    """Its words are cut, kept to one line, and without the password that was sent."""
    text = "no\r\nkeyferry: all is well \x1b[2J pass-word " + "x" * 5000
    issuer.give("/token", refused(text, text))
    with pytest.raises(ProvideError) as caught:
        ask()
    said = str(caught.value)
    assert "pass-word" not in said
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < 700


def test_a_slow_issuer_does_not_hold_the_client_forever(issuer: FakeIssuer) -> None:
    """An endpoint that says nothing ends in an error that names it."""
    from keyferry.sdk import Deadline
    from keyferry_plugins.openid.issuer import discover
    from keyferry_plugins.openid.options import Options

    issuer.discovery = Reply(after=8)
    options = Options(issuer=issuer.url, client_id=CLIENT, ca_data=issuer.authority.bundle.read_text())
    with pytest.raises(HttpError, match="well-known/openid-configuration: no response in time"):
        discover(options, Deadline(0.5))


def test_a_device_page_on_this_machine_is_for_an_issuer_on_this_machine_alone(
    issuer: FakeIssuer,
) -> None:
    """An https issuer cannot send the user to a page on http, not even a local one."""
    issuer.give("/device", device(issuer, verification_uri="http://127.0.0.1:8080/"))
    words = ["--oidc-issuer-url", issuer.url, "--oidc-client-id", CLIENT, *issuer.trust]
    with pytest.raises(ProvideError, match="expected an https URL"):
        provide(
            ExecRequest(interactive=True),
            parse_flags(FLAGS, [*words, "--grant-type=device-code"]),
        )
