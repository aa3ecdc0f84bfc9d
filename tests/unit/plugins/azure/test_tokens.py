"""Tokens in answers: what counts as one, and when it expires."""

from __future__ import annotations

import time

import pytest

from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.http import Reply
from keyferry_plugins.azure.tokens import check_https, read_instant, read_token


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1893456000, 1893456000.0),
        ("1893456000", 1893456000.0),
        (1893456000.5, 1893456000.5),
        ("2030-01-01T00:00:00Z", 1893456000.0),
        ("2030-01-01T01:00:00+01:00", 1893456000.0),
        ("1/1/2030 12:00:00 AM +00:00", 1893456000.0),
        ("1/1/2030 1:00:00 PM +00:00", 1893456000.0 + 13 * 3600),
        ("12/31/2029 23:00:00 PM +00:00", 1893456000.0 - 3600),
        ("1/1/2030 00:00:00 +00:00", 1893456000.0),
        (True, None),
        (None, None),
        ("", None),
        ("soon", None),
        ("1/2/3", None),
        ("1/2/2030 x:00:00", None),
        (f"1/2/2030 {5000 * '9'}:00:00 PM", None),
        (-1, None),
        (10**30, None),
        ("9" * 40, None),
        (float("nan"), None),
        ([], None),
    ],
)
def test_a_time_comes_in_many_forms(value: object, seconds: float | None) -> None:
    """Numbers, numbers as text, dates; anything else is no time."""
    assert read_instant(value) == seconds


def test_the_instant_counts_before_the_lifetime() -> None:
    """And the lifetime where the instant makes no sense."""
    body = b'{"access_token": "t", "expires_on": "%s", "expires_in": "60"}'
    assert read_token(Reply("u", 200, (), body % b"1893456000")).expires_at == 1893456000
    at = read_token(Reply("u", 200, (), body % b"soon")).expires_at
    assert at is not None
    assert 0 < at - time.time() <= 60
    assert read_token(Reply("u", 200, (), b'{"access_token": "t"}')).expires_at is None


def test_a_token_does_not_show() -> None:
    """Neither in a repr nor in an error."""
    body = b'{"access_token": "hidden", "refresh_token": "hidden"}'
    assert "hidden" not in repr(read_token(Reply("u", 200, (), body)))
    with pytest.raises(HttpError) as caught:
        read_token(Reply("https://x/y", 200, (), b'{"access_token": "hidden hidden"}'))
    assert "hidden" not in str(caught.value)


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
