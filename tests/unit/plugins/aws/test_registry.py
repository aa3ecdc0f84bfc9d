"""Logins and their ends, as ECR answers them."""

from __future__ import annotations

import base64

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.registry import _expiry, _split


def encoded(text: str) -> str:
    """Base64 of a text."""
    return base64.b64encode(text.encode()).decode()


def test_a_token_is_user_and_password() -> None:
    """The password begins after the first colon."""
    assert _split(encoded("AWS:pass:word"), "there") == ("AWS", "pass:word")


@pytest.mark.parametrize("token", [None, 5, "", "%%%", "QVdTOng", encoded("foo"), "\u00e9"])
def test_what_is_no_token_is_refused(token: object) -> None:
    """Missing, not base64, without a colon: an error that quotes none of it."""
    with pytest.raises(ProvideError, match="authorizationToken") as caught:
        _split(token, "there")
    assert not (isinstance(token, str) and token and token in str(caught.value))


@pytest.mark.parametrize("value", ["2024-01-01", True, -1, 1e30, []])
def test_an_expiry_is_a_number_of_seconds(value: object) -> None:
    """Anything else is refused, nothing is guessed."""
    with pytest.raises(ProvideError, match="expiresAt"):
        _expiry(value, "there")


def test_an_expiry_may_be_missing_or_fractional() -> None:
    """AWS leaves it out, or gives fractions of seconds."""
    assert _expiry(None, "there") is None
    assert _expiry(1.5, "there") == 1.5
