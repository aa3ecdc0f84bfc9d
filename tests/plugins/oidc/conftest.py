"""What tests of OpenID Connect ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fake_issuer import FakeIssuer, issuing


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    """An issuer of tokens, over plain HTTP."""
    with issuing(None) as found:
        yield found
