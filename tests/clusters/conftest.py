"""What the tests of adapters share: an authority, a server and a kubeconfig for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api_server import ApiServer
from support.certificates import Authority
from support.kube import TOKEN, Kube, kube_in
from support.profile_world import ProfileWorld


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Who signs the certificates."""
    return Authority()


@pytest.fixture
def server(authority: Authority) -> Iterator[ApiServer]:
    """A server that knows one token."""
    with ApiServer(authority) as running:
        running.tokens = {TOKEN}
        yield running


@pytest.fixture
def kube(tmp_path: Path, server: ApiServer, authority: Authority) -> Kube:
    """A kubeconfig for the server, whose plugin gives the token."""
    return kube_in(tmp_path / "kube", server.url, authority.pem)


@pytest.fixture
def world(
    tmp_path: Path, server: ApiServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> ProfileWorld:
    """A provider file whose plugin gives the token, and profiles of the server."""
    monkeypatch.delenv("REGION", raising=False)
    return ProfileWorld(tmp_path, server, authority)
