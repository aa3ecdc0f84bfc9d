"""Tokens that are bound to a key, where the packages for that are missing."""

from __future__ import annotations

import sys

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.azure.pop import make_proof


@pytest.mark.parametrize(("module", "package"), [("cryptography", "cryptography"), ("jwt", "PyJWT")])
def test_without_the_packages_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    """A token bound to a key needs both, and says so before anything is asked for."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProvideError, match=rf"{package}.*'\.\[crypto\]'"):
        make_proof()
