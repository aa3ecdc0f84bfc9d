"""Tokens in answers: what counts as one, when it expires, and what binding one to a key needs."""

from __future__ import annotations

import sys
import time

import pytest

from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.http import Reply
from keyferry_plugins.azure.entra import read_instant, read_token
from keyferry_plugins.azure.signatures import make_proof


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


def answer(body: bytes) -> Reply:
    """A response of a token endpoint."""
    return Reply(url="https://x/y", status=200, headers=(), body=body)


def test_the_instant_counts_before_the_lifetime() -> None:
    """And the lifetime where the instant makes no sense."""
    body = b'{"access_token": "t", "expires_on": "%s", "expires_in": "60"}'
    assert read_token(answer(body % b"1893456000")).expires_at == 1893456000
    at = read_token(answer(body % b"soon")).expires_at
    assert at is not None
    assert 0 < at - time.time() <= 60
    assert read_token(answer(b'{"access_token": "t"}')).expires_at is None


def test_a_token_does_not_show() -> None:
    """Neither in a repr nor in an error."""
    body = b'{"access_token": "hidden", "refresh_token": "hidden"}'
    assert "hidden" not in repr(read_token(answer(body)))
    with pytest.raises(HttpError) as caught:
        read_token(answer(b'{"access_token": "hidden hidden"}'))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(("module", "package"), [("cryptography", "cryptography"), ("jwt", "PyJWT")])
def test_without_the_packages_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    """A token bound to a key needs both, and says so before anything is asked for."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProvideError, match=rf"{package}.*'\.\[crypto\]'"):
        make_proof()
