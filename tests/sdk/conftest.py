"""Nothing of the machine's own network settings gets into these tests."""

from __future__ import annotations

import pytest

SETTINGS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def _plain_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
