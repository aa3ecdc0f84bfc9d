"""Where a plugin may send a secret."""

from __future__ import annotations

import pytest

from keyferry.sdk.http import is_safe_for_secrets

SAFE = [
    "https://x.example/", "HTTPS://x.example", "https://127..1/", "http://localhost:1/x", "http://LOCALHOST",
    "http://127.8.9.1:80/", "http://[::1]:8/", "http://me:pw@localhost/",
]  # fmt: skip
UNSAFE = [
    "http://x.example/", "HTTP://x.example", "http://127..1/", "http://127.999.1.1/", "http://127.1/",
    "http://127.0.0.1.x.example/", "http://localhost.x.example/", "http://localhost@x.example/",
    "http://[::ffff:127.0.0.1]/", "http://x.example/?https://", "ftp://localhost/", "localhost", "//localhost", "",
    "https:/x.example", "https://", "https://x.example:99999/", "https://x y/", "https://x\r\ny/",
]  # fmt: skip


@pytest.mark.parametrize("url", SAFE)
def test_a_secret_goes_over_tls_or_stays_on_this_machine(url: str) -> None:
    assert is_safe_for_secrets(url)


@pytest.mark.parametrize("url", UNSAFE)
def test_a_secret_goes_nowhere_else(url: str) -> None:
    """Neither by plain HTTP to another machine, however it is written, nor to what is no URL."""
    assert not is_safe_for_secrets(url)
