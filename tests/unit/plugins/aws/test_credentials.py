"""Credentials of AWS, as the sources of them answer."""

from __future__ import annotations

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.credentials import read_credentials


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"AccessKeyId": "A"},
        {"AccessKeyId": "A", "SecretAccessKey": 5},
        {"AccessKeyId": "A\n", "SecretAccessKey": "b"},
    ],
)
def test_credentials_need_key_and_secret(document: dict[str, object]) -> None:
    """An answer without one of them, or with a line break in it, is refused."""
    with pytest.raises(ProvideError, match="the response of the test has no"):
        read_credentials(document, "the test")


def test_credentials_have_an_expiry_or_none() -> None:
    """Times are RFC 3339; what is none is refused without being quoted."""
    keys: dict[str, object] = {"AccessKeyId": "A", "SecretAccessKey": "b"}
    assert read_credentials(keys, "x").expires_at is None
    assert read_credentials({**keys, "Expiration": "1970-01-01T00:01:00Z"}, "x").expires_at == 60
    with pytest.raises(ProvideError) as caught:
        read_credentials({**keys, "Expiration": "tomorrow"}, "x")
    assert "tomorrow" not in str(caught.value)
