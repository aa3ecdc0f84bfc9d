"""Logins at an OpenID Connect issuer: what is kept, verified, waited for and refused."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest

from keyferry._core.values import replace
from keyferry.sdk import ExecRequest, ExecResponse, ProvideError
from keyferry.sdk.flags import parse_flags
from keyferry_plugins.oauth.answers import Token
from keyferry_plugins.oauth.calls import check_https
from keyferry_plugins.oauth.store import load_token, save_token
from keyferry_plugins.oidc import provide
from keyferry_plugins.openid.issuer import Issuer
from keyferry_plugins.openid.login import log_in_by_device
from keyferry_plugins.openid.options import FLAGS, Options, cache_path
from keyferry_plugins.openid.verify import check_claims
from support.fake_cloud import Authority, Reply
from support.fake_issuer import CLIENT, KEYS, SECRET, FakeIssuer, device, issuing, refused, sign
from support.oidc_options import options_of


def ask(issuer: FakeIssuer, *args: str) -> ExecResponse:
    words = [
        "--oidc-issuer-url",
        issuer.url,
        "--oidc-client-id",
        CLIENT,
        "--username=a",
        "--password=pass-word",
    ]
    return provide(ExecRequest(), parse_flags(FLAGS, [*words, *args]))


def ask_without(module: str, issuer: FakeIssuer, *args: str) -> ExecResponse:
    """Ask where that package is not installed; the issuer, in this same process, has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module, None)
        return ask(issuer, *args)


@pytest.mark.parametrize("module", ["cryptography", "jwt"])
def test_without_what_verifies_verified_tls_is_needed(
    issuer: FakeIssuer, tmp_path: Path, module: str
) -> None:
    """A token straight from the issuer over TLS is taken without its signature; over anything else it is not."""
    authority = Authority(tmp_path)
    issuer.give("/token", issuer.tokens())
    with pytest.raises(ProvideError, match="was not received over verified TLS") as caught:
        ask_without(module, issuer)
    assert "pip install '.[crypto]'" in str(caught.value)
    with issuing(authority) as secure:
        trust = ("--certificate-authority", str(authority.bundle))
        secure.give("/token", secure.tokens())
        assert ask_without(module, secure, *trust).token
        with pytest.raises(ProvideError, match="was not received over verified TLS"):
            ask_without(module, secure, "--insecure-skip-tls-verify")
        for token, said in (
            (sign(secure.claims(aud="other")), "is for 'other'"),
            (sign(secure.claims(exp=1)), "expired"),
            (sign(secure.claims(), "none"), "signed by 'none'"),
            (sign(secure.claims(), "HS256"), "signed by 'HS256'"),
            (sign(secure.claims(), "RS512"), "signed by 'RS512', expected one of RS256, ES256"),
        ):
            secure.give("/token", secure.tokens(token))
            with pytest.raises(ProvideError, match=said):
                ask_without(module, secure, *trust)
        assert secure.asked("/keys") == []


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_an_issuer_cannot_announce_that_tokens_are_not_signed(tmp_path: Path, algorithm: str) -> None:
    """Also where nothing verifies: a token without a signature, or with one that every client can make, is none."""
    authority = Authority(tmp_path)
    with issuing(authority) as secure:
        secure.metadata["id_token_signing_alg_values_supported"] = [algorithm]
        secure.give("/token", secure.tokens(sign(secure.claims(), algorithm)))
        with pytest.raises(ProvideError, match=f"signed by '{algorithm}'"):
            ask_without("jwt", secure, "--certificate-authority", str(authority.bundle))


def test_nothing_is_kept_unless_the_user_asks(
    issuer: FakeIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --compat no file is written; with it, or a folder, or ``disk``, one is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECACHEDIR", raising=False)
    ask(issuer)
    assert list(tmp_path.iterdir()) == []
    ask(issuer, "--compat")
    assert len(list((tmp_path / ".kube/cache/oidc-login").glob("*.lock"))) == 1
    ask(issuer, "--token-cache-storage=disk")
    assert (tmp_path / ".kube/cache/keyferry-oidc").is_dir()
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "elsewhere"))
    ask(issuer, "--compat")
    ask(issuer, "--token-cache-dir", "~/named")
    assert (tmp_path / "elsewhere/oidc-login").is_dir()
    assert (tmp_path / "named").is_dir()
    ask(issuer, "--compat", "--token-cache-storage=none", f"--token-cache-dir={tmp_path}/never")
    assert not (tmp_path / "never").exists()


def test_a_kept_token_is_answered_without_the_issuer(issuer: FakeIssuer, tmp_path: Path) -> None:
    """Until it is about to end, or a new one is demanded; it lies in a file for the user alone."""
    args = ("--token-cache-dir", str(tmp_path / "c"))
    first = ask(issuer, *args)
    issuer.received.clear()
    assert ask(issuer, *args) == first
    assert issuer.received == []
    assert ask(issuer, *args, "--force-refresh").token
    assert issuer.received
    (path,) = (found for found in (tmp_path / "c").iterdir() if found.suffix != ".lock")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "pass-word" not in path.read_text() + path.name


@pytest.mark.parametrize(("mode", "is_used"), [((), False), (("--compat",), True)])
def test_a_token_at_its_end_is_used_only_as_upstream_does(
    issuer: FakeIssuer,
    tmp_path: Path,
    mode: tuple[str, ...],
    is_used: bool,
) -> None:
    """With seconds left it would end on its way to the cluster."""
    args = ("--token-cache-dir", str(tmp_path), *mode)
    ending = sign(issuer.claims(exp=int(time.time()) + 8))
    issuer.give("/token", issuer.tokens(ending), issuer.tokens(sign(issuer.claims(jti="new"))))
    assert ask(issuer, *args).token == ending
    assert (ask(issuer, *args).token == ending) is is_used


def test_a_refresh_token_saves_a_login_and_follows_rotation(issuer: FakeIssuer, tmp_path: Path) -> None:
    """The newest refresh token is the one kept; where no new one comes, the old one stays."""
    args = ("--token-cache-dir", str(tmp_path), "--force-refresh")
    issuer.give(
        "/token", issuer.tokens(refresh_token="r1"), issuer.tokens(refresh_token="r2"), issuer.tokens()
    )
    for _ in range(4):
        assert ask(issuer, *args).token
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
    issuer: FakeIssuer, tmp_path: Path, answer: Reply
) -> None:
    """Refused, or answered without what is wanted."""
    args = ("--token-cache-dir", str(tmp_path), "--force-refresh")
    issuer.give("/token", issuer.tokens(refresh_token="r1"), answer, issuer.tokens(refresh_token="r2"))
    ask(issuer, *args)
    assert ask(issuer, *args).token
    grants = [request.form["grant_type"] for request in issuer.asked("/token")]
    assert grants == ["password", "refresh_token", "password"]


@pytest.mark.parametrize("answer", [Reply(502), Reply(is_closed=True)], ids=["status", "no answer"])
def test_an_issuer_in_trouble_costs_no_refresh_token(
    issuer: FakeIssuer, tmp_path: Path, answer: Reply
) -> None:
    """It is sent once, kept, and good the next time; upstream goes on to a login."""
    args = ("--token-cache-dir", str(tmp_path), "--force-refresh")
    issuer.give("/token", issuer.tokens(refresh_token="r1"), answer, issuer.tokens())
    ask(issuer, *args)
    with pytest.raises(ProvideError):
        ask(issuer, *args)
    assert len(issuer.asked("/token")) == 2
    assert ask(issuer, *args).token
    assert issuer.asked("/token")[-1].form["refresh_token"] == "r1"
    issuer.give("/token", issuer.tokens(refresh_token="r1"), answer, issuer.tokens())
    ask(issuer, *args, "--compat")
    assert ask(issuer, *args, "--compat").token
    assert issuer.asked("/token")[-1].form["grant_type"] == "password"


def test_a_refreshed_token_is_verified_like_any_other(issuer: FakeIssuer, tmp_path: Path) -> None:
    """One with a wrong signature is an error, and is not kept."""
    args = ("--token-cache-dir", str(tmp_path), "--force-refresh")
    issuer.give(
        "/token", issuer.tokens(refresh_token="r1"), issuer.tokens(sign(issuer.claims(), key=KEYS[1]))
    )
    good = ask(issuer, *args).token
    with pytest.raises(ProvideError, match="signature is not confirmed"):
        ask(issuer, *args)
    assert ask(issuer, *args[:2]).token == good


def test_a_planted_or_broken_file_is_not_believed(issuer: FakeIssuer, tmp_path: Path) -> None:
    """One that others can read or write, a link, or one that is not ours, is as good as absent."""
    args = ("--token-cache-dir", str(tmp_path))
    options = replace(
        options_of(*args), issuer=issuer.url, client_id=CLIENT, username="a", password="pass-word"
    )
    path = Path(cache_path(options))
    planted = json.dumps({"id_token": "evil", "expires_at": int(time.time()) + 900, "refresh_token": "evil"})
    path.write_text(planted)
    path.chmod(0o644)
    assert ask(issuer, *args).token != "evil"
    path.unlink()
    (tmp_path / "target").write_text(planted)
    (tmp_path / "target").chmod(0o600)
    os.symlink(tmp_path / "target", path)
    assert load_token(str(path), "id_token") is None
    path.unlink()
    for text in ("", "{", "[]", '{"id_token": 7, "expires_at": true, "refresh_token": []}'):
        path.write_text(text)
        path.chmod(0o600)
        assert load_token(str(path), "id_token") is None
    # And this is indeed the file that counts.
    path.write_text(planted)
    path.chmod(0o600)
    assert ask(issuer, *args).token == "evil"


def test_a_cache_that_cannot_be_written_costs_only_time(
    issuer: FakeIssuer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The token is answered, and the user is told."""
    (tmp_path / "file").write_text("")
    assert ask(issuer, "--token-cache-dir", str(tmp_path / "file" / "x")).token
    assert "the token cannot be cached" in capfd.readouterr().err
    assert not save_token(str(tmp_path / "file" / "x" / "y"), Token(value="x"))


@pytest.mark.parametrize(
    "args",
    [
        ["--oidc-client-secret=x"],
        ["--oidc-extra-scope=x"],
        ["--oidc-use-access-token"],
        ["--oidc-request-header=a=b"],
        ["--oidc-auth-request-extra-params=a=b"],
        ["--grant-type=password"],
        ["--username=x"],
        ["--password=x"],
        ["--insecure-skip-tls-verify"],
        ["--oidc-redirect-url=https://x"],
        ["--oidc-issuer-url=https://j"],
        ["--oidc-client-id=d"],
        ["--compat", "--token-cache-dir=/c"],
    ],
    ids=str,
)
def test_whatever_changes_the_token_changes_its_file(args: list[str]) -> None:
    """Two users, clients, scopes or servers never share a token."""
    folder = "--token-cache-dir=/c"
    assert cache_path(options_of(folder, *args)) != cache_path(options_of(folder))
    assert cache_path(options_of(folder, *args)) == cache_path(options_of(folder, *args))


def plain(issuer: FakeIssuer) -> Issuer:
    return Issuer(
        url=issuer.url, token_endpoint=f"{issuer.url}/token", device_endpoint=f"{issuer.url}/device"
    )


def test_waits_grow_when_the_issuer_asks_for_it_and_stay_grown(
    issuer: FakeIssuer, capfd: pytest.CaptureFixture[str]
) -> None:
    """Five seconds more for good after slow_down, and after an issuer in trouble."""
    waits: list[float] = []
    issuer.give("/device", device(issuer, interval=2))
    pending, slow = refused("authorization_pending"), refused("slow_down")
    issuer.give("/token", pending, slow, pending, Reply(503), pending, issuer.tokens())
    tokens = log_in_by_device(plain(issuer), Options(issuer=issuer.url, client_id=CLIENT), waits.append)
    assert tokens.id_token
    assert waits == [2, 2, 7, 7, 12, 12]
    assert "WDJB-MJHT" in capfd.readouterr().err


@pytest.mark.parametrize(("interval", "wait"), [(None, 5), (0, 5), ("3", 3), (0.01, 1), (9999, 60), ("x", 5)])
def test_an_odd_interval_neither_floods_nor_stalls(issuer: FakeIssuer, interval: object, wait: float) -> None:
    """Five seconds where none is given, at least one, at most a minute."""
    waits: list[float] = []
    issuer.give("/device", device(issuer, interval=interval, expires_in=600))
    log_in_by_device(plain(issuer), Options(issuer=issuer.url, client_id=CLIENT), waits.append)
    assert waits == [wait]


def test_a_code_is_polled_for_once_at_a_time(issuer: FakeIssuer) -> None:
    """A request that failed on its way is not sent again by itself: a code used twice counts as stolen."""
    issuer.give("/device", device(issuer))
    issuer.give("/token", Reply(is_closed=True))
    with pytest.raises(ProvideError):
        log_in_by_device(plain(issuer), Options(issuer=issuer.url, client_id=CLIENT), lambda _: None)
    assert len(issuer.asked("/token")) == 1


def test_lists_in_flags_are_split_at_commas_and_quotes() -> None:
    """As upstream's flags are."""
    options = options_of(
        "--oidc-extra-scope=a,b", "--oidc-extra-scope", '"c,d",e', '--oidc-request-header="X=1,2",Y=3'
    )
    assert options.scopes == ("a", "b", "c,d", "e")
    assert options.headers == {"X": "1,2", "Y": "3"}


def test_options_show_no_secret() -> None:
    """Not in their repr, whatever holds one."""
    options = options_of(
        f"--oidc-client-secret={SECRET}", f"--password={SECRET}", f"--oidc-request-header=K={SECRET}"
    )
    assert SECRET not in repr(options)
    assert options.secrets == (SECRET, SECRET, SECRET)


def test_google_may_leave_out_its_scheme() -> None:
    """And nobody else may."""
    claims = {"iss": "accounts.google.com", "aud": "c", "exp": 2000}
    assert check_claims(claims, "https://accounts.google.com", "c", now=1000) == 2000
    with pytest.raises(ProvideError, match="from the issuer"):
        check_claims({**claims, "iss": "i.example"}, "https://i.example", "c", now=1000)


@pytest.mark.parametrize(
    ("now", "is_good"), [(1690, False), (1700, True), (2000, True), (2009, True), (2010, False)]
)
def test_clocks_may_differ_a_little(now: float, is_good: bool) -> None:
    """Five minutes before a token starts to hold, ten seconds after it ended."""
    claims = {"iss": "i", "aud": "c", "nbf": 2000, "exp": 2000}
    if is_good:
        assert check_claims(claims, "i", "c", now=now) == 2000
    else:
        with pytest.raises(ProvideError, match="compare this machine's clock"):
            check_claims(claims, "i", "c", now=now)


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"aud": "c"}, ""),
        ({"aud": ["b", "c"]}, ""),
        ({"aud": ["b", "c"], "azp": "c"}, ""),
        ({"aud": "b"}, "the token is for 'b', expected the client 'c'"),
        ({"aud": ["a", "b"]}, "the token is for 'a, b'"),
        ({}, "expected the client 'c'"),
        ({"aud": ["b", "c"], "azp": "b"}, "the token was issued to 'b'"),
    ],
)
def test_a_token_is_for_the_client_that_asked(claims: dict[str, object], problem: str) -> None:
    token = {"iss": "i", "exp": 2000, **claims}
    if problem:
        with pytest.raises(ProvideError, match=problem):
            check_claims(token, "i", "c", now=1000)
    else:
        assert check_claims(token, "i", "c", now=1000) == 2000


@pytest.mark.parametrize(
    "url",
    [
        "https://x/y",
        "HTTPS://x",
        "http://localhost:1/x",
        "http://127.0.0.1",
        "http://127.0.0.2",
        "http://[::1]:2/",
    ],
)
def test_secrets_go_over_tls_or_stay_here(url: str) -> None:
    """Loopback needs no TLS."""
    assert check_https(url, "it") == url


@pytest.mark.parametrize(
    "url",
    [
        "http://x",
        "ftp://localhost",
        "localhost",
        "",
        "http://localhost@x/",
        "http://127.0.0.1.x/",
        "http://127..1/",
    ],
)
def test_secrets_go_nowhere_else(url: str) -> None:
    """Not by plain HTTP to another machine, however it is written."""
    with pytest.raises(ProvideError, match="it is not an https:// URL"):
        check_https(url, "it")
