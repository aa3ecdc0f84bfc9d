"""Where secrets may be sent."""

from __future__ import annotations

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.oauth.calls import check_https


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
