"""What attacks ask for."""

from __future__ import annotations

import pytest

from support.bobs_cluster import bob
from support.far_node import far

__all__ = ["bob", "far", "plain_network"]


@pytest.fixture
def plain_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, whatever this machine has."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
