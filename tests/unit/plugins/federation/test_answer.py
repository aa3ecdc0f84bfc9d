"""What is a login, and how long it is kept."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode

import pytest

from keyferry.api.federation.rules import CompleteRule
from keyferry.api.federation.v1alpha1 import (
    CacheLifetime,
    CredentialTemplates,
    ExchangeCall,
    Margin,
    Recipe,
    SubjectSettings,
)
from keyferry.sdk import AuthConfig, ProvideError, Request, Response
from keyferry_plugins.federation.answer import kept_seconds, make_response
from keyferry_plugins.federation.subject import SubjectToken
from support.jose_tokens import forge

NOW = 1_000_000.0
MINUTE = 60_000_000_000
LEEWAY = 60
SUBJECT = "head.~~claims??.signature"


def log_in(username: str, password: str, *, has_calls: bool = True) -> Response:
    """Return the response for a login that a server returned, or that is made of the token itself."""
    calls = (ExchangeCall(),) if has_calls else ()
    recipe = Recipe(
        calls=calls,
        credentials=CredentialTemplates(username="${name}", password="${word}"),
        lifetime=CacheLifetime(sources=(), unknown_ns=MINUTE),
    )
    rule = CompleteRule(
        registries=("r.example",),
        subject=SubjectSettings(),
        parameters={},
        recipe=recipe,
        cache_key_type="Image",
        ca_file="",
    )
    subject = SubjectToken(text=SUBJECT, issuer="i", subject="s", audience="a", expires_at=NOW + 1000)
    return make_response(
        rule, {"name": username, "word": password}, subject, Request(image="r.example/a"), NOW
    )


def test_a_login_is_for_the_registry_of_the_image_alone() -> None:
    expected = Response(
        auth={"r.example": AuthConfig(username="u", password="opaque")},
        cache_key_type="Image",
        cache_seconds=60.0,
    )
    assert log_in("u", "opaque") == expected


@pytest.mark.parametrize(("username", "password"), [("", "p"), ("u", ""), ("", "")])
def test_half_a_login_is_none(username: str, password: str) -> None:
    """The kubelet would try it, and the registry's refusal would hide what is wrong."""
    with pytest.raises(ProvideError, match="no user name or no password"):
        log_in(username, password)


@pytest.mark.parametrize(
    "echo",
    [
        SUBJECT,
        f"a{SUBJECT}b",
        SUBJECT.encode().hex().upper(),
        b64encode(SUBJECT.encode()).decode(),
        urlsafe_b64encode(f"u:{SUBJECT}:p".encode()).decode(),
        SUBJECT.replace("e", "%65"),
    ],
)
def test_the_subject_token_is_a_login_only_without_calls(echo: str) -> None:
    for login in ((echo, "p"), ("u", echo)):
        with pytest.raises(ProvideError, match="returned the subject token itself"):
            log_in(*login)
        assert log_in(*login, has_calls=False).auth == {
            "r.example": AuthConfig(username=login[0], password=login[1])
        }


def token(seconds: int) -> str:
    """A token that expires so many seconds from now."""
    return forge({"alg": "none"}, claims={"exp": int(NOW) + seconds})


@pytest.mark.parametrize(
    ("lifetime", "values", "password", "kept"),
    [
        (CacheLifetime(sources=("ttl",)), {"ttl": "1000"}, "opaque", 900),
        (CacheLifetime(sources=("ttl", "exp")), {"ttl": ""}, token(1000), 900),
        (CacheLifetime(sources=("ttl", "exp")), {"ttl": "5000"}, token(1000), 900),
        (CacheLifetime(sources=("ttl", "exp")), {"ttl": "100"}, token(1000), 90),
        (CacheLifetime(sources=("ttl",), margin=Margin(ns=MINUTE)), {"ttl": "1000"}, "opaque", 940),
        (CacheLifetime(sources=("ttl",), margin=Margin(ns=MINUTE)), {"ttl": "30"}, "opaque", 0),
        (CacheLifetime(sources=("ttl",), most_ns=MINUTE), {"ttl": "1000"}, "opaque", 60),
        (CacheLifetime(sources=("ttl",), unknown_ns=MINUTE), {"ttl": "0"}, "opaque", 60),
        (CacheLifetime(sources=("ttl",), unknown_ns=MINUTE), {}, token(10), 9),
        (CacheLifetime(sources=("ttl",), unknown_ns=MINUTE), {"ttl": "9" * 5000}, "opaque", 60),
        (CacheLifetime(sources=()), {}, "opaque", 0),
        (CacheLifetime(sources=("exp",)), {}, forge({"alg": "none"}, claims={"exp": "soon"}), 0),
    ],
)
def test_a_login_is_kept_for_its_lifetime_less_a_margin(
    lifetime: CacheLifetime, values: dict[str, str], password: str, kept: float
) -> None:
    assert kept_seconds(lifetime, values, password, NOW) == kept


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"nbf": NOW + LEEWAY + 1}, "not valid yet"),
        ({"exp": NOW}, "expired already"),
        ({"exp": NOW - 1000}, "expired already"),
    ],
)
def test_a_token_that_does_not_hold_now_is_refused(claims: dict[str, object], problem: str) -> None:
    with pytest.raises(ProvideError, match=problem):
        kept_seconds(CacheLifetime(sources=("exp",)), {}, forge({"alg": "none"}, claims=claims), NOW)


@pytest.mark.parametrize("start", [NOW - 1000, NOW + LEEWAY, True, "soon"])
def test_clocks_may_differ_a_little(start: object) -> None:
    password = forge({"alg": "none"}, claims={"nbf": start, "exp": NOW + 1000})
    assert kept_seconds(CacheLifetime(sources=("exp",)), {}, password, NOW) == 900
