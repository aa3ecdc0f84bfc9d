"""Logins at an OpenID Connect issuer: what is kept, verified, waited for and refused."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest

from keyferry.sdk import ExecRequest, ProvideError
from keyferry.sdk.flags import parse_flags
from keyferry_plugins.oidc import provide
from keyferry_plugins.openid.options import FLAGS
from keyferry_plugins.openid.verify import check_claims
from support.fake_cloud import Reply
from support.fake_issuer import CLIENT, KEYS, FakeIssuer, device, issuing, refused, sign
from support.oidc_plugin import BY_PASSWORD, INTERACTIVE, Ask, failure


def ask_without(module: str, issuer: FakeIssuer, *args: str) -> str:
    """Ask in this process, as if that package was not installed; the issuer, which is here too, has signed before."""
    words = ["--oidc-issuer-url", issuer.url, "--oidc-client-id", CLIENT, *issuer.trust, *BY_PASSWORD, *args]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module, None)
        return provide(ExecRequest(), parse_flags(FLAGS, words)).token


@pytest.mark.parametrize("module", ["cryptography", "jwt"])
def test_without_what_verifies_verified_tls_is_needed(issuer: FakeIssuer, module: str) -> None:
    """A token straight from the issuer over TLS is taken without its signature; over anything else it is not."""
    with issuing(None) as plain:
        plain.give("/token", plain.tokens())
        with pytest.raises(ProvideError, match="was not received over verified TLS") as caught:
            ask_without(module, plain)
    assert "pip install '.[crypto]'" in str(caught.value)
    issuer.give("/token", issuer.tokens())
    assert ask_without(module, issuer)
    with pytest.raises(ProvideError, match="was not received over verified TLS"):
        ask_without(module, issuer, "--insecure-skip-tls-verify")
    for token, said in (
        (sign(issuer.claims(aud="other")), "is for 'other'"),
        (sign(issuer.claims(exp=1)), "expired"),
        (sign(issuer.claims(), "none"), "signed by 'none'"),
        (sign(issuer.claims(), "HS256"), "signed by 'HS256'"),
        (sign(issuer.claims(), "RS512"), "signed by 'RS512', expected one of RS256, ES256"),
    ):
        issuer.give("/token", issuer.tokens(token))
        with pytest.raises(ProvideError, match=said):
            ask_without(module, issuer)
    assert issuer.asked("/keys") == []


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_an_issuer_cannot_announce_that_tokens_are_not_signed(issuer: FakeIssuer, algorithm: str) -> None:
    """Also where nothing verifies: a token without a signature, or with one that every client can make, is none."""
    issuer.metadata["id_token_signing_alg_values_supported"] = [algorithm]
    issuer.give("/token", issuer.tokens(sign(issuer.claims(), algorithm)))
    with pytest.raises(ProvideError, match=f"signed by '{algorithm}'"):
        ask_without("jwt", issuer)


def test_nothing_is_kept_unless_the_user_asks(ask: Ask) -> None:
    """Without --compat no file is written; with it, or a folder, or ``disk``, one is."""
    elsewhere = {"KUBECACHEDIR": str(ask.home / "elsewhere")}
    ask.token(*BY_PASSWORD)
    assert list(ask.home.iterdir()) == []
    ask.token(*BY_PASSWORD, "--compat")
    assert len(list((ask.home / ".kube/cache/oidc-login").glob("*.lock"))) == 1
    ask.token(*BY_PASSWORD, "--token-cache-storage=disk")
    assert (ask.home / ".kube/cache/keyferry-oidc").is_dir()
    ask.token(*BY_PASSWORD, "--compat", env=elsewhere)
    ask.token(*BY_PASSWORD, "--token-cache-dir", "~/named", env=elsewhere)
    assert (ask.home / "elsewhere/oidc-login").is_dir()
    assert (ask.home / "named").is_dir()
    never = ask.home / "never"
    ask.token(*BY_PASSWORD, "--compat", "--token-cache-storage=none", f"--token-cache-dir={never}")
    assert not never.exists()


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, ...]:
    """The words of a user who keeps tokens."""
    return (*BY_PASSWORD, "--token-cache-dir", str(tmp_path / "kept"))


def kept_file(tmp_path: Path) -> Path:
    """The file of the only token that is kept."""
    (path,) = (found for found in (tmp_path / "kept").iterdir() if found.suffix != ".lock")
    return path


def test_a_kept_token_is_answered_without_the_issuer(
    issuer: FakeIssuer, ask: Ask, kept: tuple[str, ...], tmp_path: Path
) -> None:
    """Until it is about to end, or a new one is demanded; it lies in a file for the user alone."""
    first = ask(*kept).login_status
    issuer.received.clear()
    assert ask(*kept).login_status == first
    assert issuer.received == []
    assert ask.token(*kept, "--force-refresh")
    assert issuer.received
    path = kept_file(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "pass-word" not in path.read_text() + path.name


@pytest.mark.parametrize(("mode", "is_used"), [((), False), (("--compat",), True)])
def test_a_token_at_its_end_is_used_only_as_upstream_does(
    issuer: FakeIssuer, ask: Ask, kept: tuple[str, ...], mode: tuple[str, ...], *, is_used: bool
) -> None:
    """With seconds left it would end on its way to the cluster."""
    ending = sign(issuer.claims(exp=int(time.time()) + 9))
    issuer.give("/token", issuer.tokens(ending), issuer.tokens(sign(issuer.claims(jti="new"))))
    assert ask.token(*kept, *mode) == ending
    assert (ask.token(*kept, *mode) == ending) is is_used


def test_a_refresh_token_saves_a_login_and_follows_rotation(
    issuer: FakeIssuer, ask: Ask, kept: tuple[str, ...]
) -> None:
    """The newest refresh token is the one kept; where no new one comes, the old one stays."""
    issuer.give(
        "/token", issuer.tokens(refresh_token="r1"), issuer.tokens(refresh_token="r2"), issuer.tokens()
    )
    for _ in range(4):
        assert ask.token(*kept, "--force-refresh")
    sent = [request.form.get("refresh_token") for request in issuer.asked("/token")]
    assert sent == [None, "r1", "r2", "r2"]
    assert issuer.asked("/token")[1].form == {
        "grant_type": "refresh_token",
        "refresh_token": "r1",
        "client_id": CLIENT,
    }


@pytest.mark.parametrize(
    "answer",
    [refused("invalid_grant"), Reply(document={"access_token": "x"}), Reply(document={"id_token": ""})],
    ids=["refused", "no ID token", "empty"],
)
def test_a_refresh_token_that_is_no_longer_good_means_a_login(
    issuer: FakeIssuer, ask: Ask, kept: tuple[str, ...], answer: Reply
) -> None:
    """Refused, or answered without what is wanted."""
    issuer.give("/token", issuer.tokens(refresh_token="r1"), answer, issuer.tokens(refresh_token="r2"))
    ask.token(*kept)
    assert ask.token(*kept, "--force-refresh")
    grants = [request.form["grant_type"] for request in issuer.asked("/token")]
    assert grants == ["password", "refresh_token", "password"]


@pytest.mark.parametrize("answer", [Reply(502), Reply(is_closed=True)], ids=["status", "no answer"])
def test_an_issuer_in_trouble_costs_no_refresh_token(
    issuer: FakeIssuer, ask: Ask, kept: tuple[str, ...], answer: Reply
) -> None:
    """It is sent once, kept, and good the next time; upstream goes on to a login."""
    args = (*kept, "--force-refresh")
    issuer.give("/token", issuer.tokens(refresh_token="r1"), answer, issuer.tokens())
    ask.token(*args)
    failure(ask(*args))
    assert len(issuer.asked("/token")) == 2
    assert ask.token(*args)
    assert issuer.asked("/token")[-1].form["refresh_token"] == "r1"
    issuer.give("/token", issuer.tokens(refresh_token="r1"), answer, issuer.tokens())
    ask.token(*args, "--compat")
    assert ask.token(*args, "--compat")
    assert issuer.asked("/token")[-1].form["grant_type"] == "password"


def test_a_refreshed_token_is_verified_like_any_other(
    issuer: FakeIssuer, ask: Ask, kept: tuple[str, ...]
) -> None:
    """One with a wrong signature is an error, and is not kept."""
    issuer.give(
        "/token", issuer.tokens(refresh_token="r1"), issuer.tokens(sign(issuer.claims(), key=KEYS[1]))
    )
    good = ask.token(*kept)
    assert "signature is not confirmed" in failure(ask(*kept, "--force-refresh"))
    assert ask.token(*kept) == good


def test_a_planted_or_broken_file_is_not_believed(ask: Ask, kept: tuple[str, ...], tmp_path: Path) -> None:
    """One that others can read or write, a link, or one that is not ours, is as good as absent."""
    ask.token(*kept)
    path, target = kept_file(tmp_path), tmp_path / "target"
    planted = json.dumps({"id_token": "evil", "expires_at": int(time.time()) + 900, "refresh_token": "evil"})
    for text, mode in (
        (planted, 0o644),
        ("", 0o600),
        ("{", 0o600),
        ("[]", 0o600),
        ('{"id_token": 7, "expires_at": true, "refresh_token": []}', 0o600),
    ):
        path.write_text(text)
        path.chmod(mode)
        assert ask.token(*kept) != "evil"
    path.unlink()
    target.write_text(planted)
    target.chmod(0o600)
    os.symlink(target, path)
    assert ask.token(*kept) != "evil"
    # And this is indeed the file that counts.
    path.unlink()
    path.write_text(planted)
    path.chmod(0o600)
    assert ask.token(*kept) == "evil"


def test_a_cache_that_cannot_be_written_costs_only_time(ask: Ask) -> None:
    """The token is answered, and the user is told."""
    (ask.home / "file").write_text("")
    answer = ask(*BY_PASSWORD, "--token-cache-dir", str(ask.home / "file" / "x"))
    assert answer.login_status["token"]
    assert "the token cannot be cached" in answer.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--oidc-client-secret=x"],
        ["--oidc-extra-scope=x"],
        ["--oidc-use-access-token"],
        ["--oidc-request-header=a=b"],
        ["--oidc-auth-request-extra-params=a=b"],
        ["--grant-type=auto"],
        ["--username=x"],
        ["--password=x"],
        ["--insecure-skip-tls-verify"],
        ["--oidc-redirect-url=https://x"],
        ["--oidc-issuer-url=https://127.0.0.1:1"],
        ["--oidc-client-id=d"],
        ["--compat"],
    ],
    ids=str,
)
def test_whatever_changes_the_token_changes_its_file(
    ask: Ask, kept: tuple[str, ...], tmp_path: Path, args: list[str]
) -> None:
    """Two users, clients, scopes or servers never share a token: each has a lock of its own, if not a token."""
    ask.token(*kept)
    for _ in range(2):
        ask(*kept, *args)
        assert len(list((tmp_path / "kept").glob("*.lock"))) == 2


@pytest.mark.parametrize(("seconds", "is_enough"), [(165, True), (145, False)])
def test_waits_grow_when_the_issuer_asks_for_it_and_stay_grown(
    issuer: FakeIssuer, ask: Ask, seconds: int, *, is_enough: bool
) -> None:
    """Five seconds more for good after slow_down, and after an issuer in trouble: 20, 20, 25, 25, 30 and 30."""
    issuer.give("/device", device(issuer, interval=20, expires_in=seconds))
    pending, slow = refused("authorization_pending"), refused("slow_down")
    issuer.give("/token", pending, slow, pending, Reply(503), pending, issuer.tokens())
    answer = ask("--grant-type=device-code", exec_info=INTERACTIVE)
    if is_enough:
        assert answer.login_status["token"]
    else:
        assert "was not entered within 145 seconds" in failure(answer)


@pytest.mark.parametrize(
    ("interval", "least", "most"),
    [(None, 15, 20), (0, 15, 20), ("x", 15, 20), ("3", 25, 33), (0.01, 60, 100), (9999, 1, 1)],
)
def test_an_odd_interval_neither_floods_nor_stalls(
    issuer: FakeIssuer, ask: Ask, interval: object, least: int, most: int
) -> None:
    """Five seconds where none is given, at least one, at most a minute; in a hundred seconds."""
    issuer.give("/device", device(issuer, interval=interval, expires_in=100))
    issuer.give("/token", refused("authorization_pending"))
    failure(ask("--grant-type=device-code", exec_info=INTERACTIVE))
    assert least <= len(issuer.asked("/token")) <= most


def test_a_code_is_polled_for_once_at_a_time(issuer: FakeIssuer, ask: Ask) -> None:
    """A request that failed on its way is not sent again by itself: a code used twice counts as stolen."""
    issuer.give("/device", device(issuer))
    issuer.give("/token", Reply(is_closed=True))
    failure(ask("--grant-type=device-code", exec_info=INTERACTIVE))
    assert len(issuer.asked("/token")) == 1


def test_lists_in_flags_are_split_at_commas_and_quotes(issuer: FakeIssuer, ask: Ask) -> None:
    """As upstream's flags are; headers go with every request, for a gateway in front of the issuer."""
    scopes = ("--oidc-extra-scope=a,b", "--oidc-extra-scope", '"c,d",e')
    assert ask.token(*BY_PASSWORD, *scopes, '--oidc-request-header="X-Gate=1,2",X-Key=k')
    assert issuer.asked("/token")[0].form["scope"] == "a b c,d e openid"
    sent = [(request.headers["x-gate"], request.headers["x-key"]) for request in issuer.received]
    assert sent == [("1,2", "k")] * 3


def test_a_header_of_the_users_is_not_shown(issuer: FakeIssuer, ask: Ask) -> None:
    """It may be the key of the gateway, which quotes it."""
    issuer.give("/token", refused("invalid_grant", "what is kf-header-value"))
    said = failure(ask(*BY_PASSWORD, "--oidc-request-header=X-Key=kf-header-value"))
    assert "what is ********" in said


def test_google_may_leave_out_its_scheme() -> None:
    """And nobody else may."""
    claims = {"iss": "accounts.google.com", "aud": "c", "exp": 2000}
    assert check_claims(claims, "https://accounts.google.com", "c", now=1000) == 2000
    with pytest.raises(ProvideError, match="from the issuer"):
        check_claims({**claims, "iss": "i.example"}, "https://i.example", "c", now=1000)


@pytest.mark.parametrize(
    ("now", "is_good"), [(1690, False), (1700, True), (2000, True), (2009, True), (2010, False)]
)
def test_clocks_may_differ_a_little(now: float, *, is_good: bool) -> None:
    """Five minutes before a token starts to hold, ten seconds after it ended."""
    claims = {"iss": "i", "aud": ["b", "c"], "nbf": 2000, "exp": 2000}
    if is_good:
        assert check_claims(claims, "i", "c", now=now) == 2000
    else:
        with pytest.raises(ProvideError, match="compare this machine's clock"):
            check_claims(claims, "i", "c", now=now)
