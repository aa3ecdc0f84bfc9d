"""An OpenID Connect issuer on loopback, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fake_cloud import Authority
from support.fake_issuer import FakeIssuer, issuing
from support.oidc_plugin import Ask


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[FakeIssuer]:
    """An issuer of tokens, over TLS."""
    with issuing(Authority(tmp_path)) as found:
        yield found


@pytest.fixture
def ask(issuer: FakeIssuer, tmp_path: Path) -> Ask:
    """Run the plugin for the issuer, in a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    return Ask(issuer, home)
