"""Claims of a token: by whom, for whom, and when."""

from __future__ import annotations

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.openid.verify import check_claims


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
