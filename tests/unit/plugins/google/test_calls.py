"""What calls to Google are made with shows no secret."""

from __future__ import annotations

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.google.calls import Calls, check_endpoint
from keyferry_plugins.google.credential_file import CredentialFile
from keyferry_plugins.oauth.answers import Token
from support.google_world import user


def test_values_that_hold_secrets_do_not_show_them() -> None:
    """A repr ends up in logs."""
    values = (
        Token(value="secret-mark"),
        CredentialFile(where="x", members=user()),
        Calls(deadline=Deadline(1), environ={"A": "secret-mark"}),
    )
    assert "mark" not in repr(values)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1.evil.com/",
        "http://localhost.evil.com/",
        "http://127..1/",
        "http://127.999.1.1/",
        "http://127.0.0.1@evil.com/",
        "http://evil.com/?https://",
        "HTTP://evil.com",
        "https:/evil.com",
        "",
        "ftp://127.0.0.1/",
    ],
)
def test_a_secret_goes_over_tls_or_stays_on_this_machine(url: str) -> None:
    """By the URL's host, not by how it begins."""
    with pytest.raises(ProvideError, match="not an https:// URL"):
        check_endpoint(url, "here")


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example.com/",
        "http://127.0.0.1:80/",
        "http://localhost/",
        "http://LocalHost/",
        "http://[::1]:8/",
    ],
)
def test_tls_and_loopback_are_fine(url: str) -> None:
    """The URL is given back."""
    assert check_endpoint(url, "here") == url
