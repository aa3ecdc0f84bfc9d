"""Which addresses belong to this machine, also where the kernel's routes cannot be asked for."""

from __future__ import annotations

import sys
from ipaddress import ip_address

import pytest

from keyferry.pulls.registry.addresses import is_machine_address

OTHERS = ("192.0.2.1", "8.8.8.8")


@pytest.mark.parametrize("platform", [sys.platform, "another"])
def test_loopback_is_this_machine(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert is_machine_address(ip_address("127.0.0.1"))


@pytest.mark.parametrize("platform", [sys.platform, "another"])
@pytest.mark.parametrize("address", OTHERS)
def test_the_world_is_not(monkeypatch: pytest.MonkeyPatch, platform: str, address: str) -> None:
    """Whether there is a route to it or none."""
    monkeypatch.setattr(sys, "platform", platform)
    assert not is_machine_address(ip_address(address))
