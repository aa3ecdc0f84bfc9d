"""Where a registry may send us: addresses of every kind, and those of this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from keyferry.pulls.registry.addresses import (
    is_loopback,
    is_loopback_name,
    is_machine_address,
    is_this_machine,
    literal_address,
    why_forbidden,
)
from support.networks import own_addresses

METADATA = [
    "169.254.169.254",
    "169.254.170.23",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "100.100.100.200",
    "168.63.129.16",
]
UNSPECIFIED = ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"]
LOOPBACK = ["127.0.0.1", "127.9.9.9", "::1"]
ELSEWHERE = ["10.0.0.7", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd12:3456::1", "::ffff:10.0.0.7"]


def teredo(address: str, server: str = "65.54.227.120") -> str:
    """A Teredo address of a client, which is written with all bits turned over."""
    client = 0xFFFF_FFFF - int(IPv4Address(address))
    return str(IPv6Address(0x2001_0000 << 96 | int(IPv4Address(server)) << 64 | client))


def shifted(prefix: str, address: str, shift: int) -> str:
    """An IPv4 address at some place behind a prefix."""
    return str(IPv6Address(int(IPv6Address(prefix)) | int(IPv4Address(address)) << shift))


def split(prefix: str, address: str, first_bits: int) -> str:
    """An IPv4 address around the byte in the middle, with so many bits before it."""
    number, rest = int(IPv4Address(address)), 32 - first_bits
    inner = number >> rest << 64 | (number & (1 << rest) - 1) << (56 - rest)
    return str(IPv6Address(int(IPv6Address(prefix)) | inner))


# Every way to write an IPv4 address into an IPv6 address.
EMBEDDINGS: dict[str, Callable[[str], str]] = {
    "mapped": lambda address: shifted("::ffff:0:0", address, 0),
    "translated": lambda address: shifted("::ffff:0:0:0", address, 0),
    "compatible": lambda address: shifted("::", address, 0),
    "6to4": lambda address: shifted("2002::1", address, 80),
    "NAT64": lambda address: shifted("64:ff9b::", address, 0),
    "NAT64 of its own, 48 bits": lambda address: split("64:ff9b:1::", address, 16),
    "NAT64 of its own, 56 bits": lambda address: split("64:ff9b:1:200::", address, 8),
    "NAT64 of its own, 64 bits": lambda address: split("64:ff9b:1:203::", address, 0),
    "NAT64 of its own, 96 bits": lambda address: shifted("64:ff9b:1:203::", address, 0),
    "Teredo client": teredo,
    "Teredo server": lambda address: teredo("8.8.8.8", address),
    "ISATAP": lambda address: shifted("2001:db8::5efe:0:0", address, 0),
}


@pytest.mark.parametrize("address", [*METADATA, *UNSPECIFIED, "224.0.0.1", "ff02::1", "255.255.255.255"])
@pytest.mark.parametrize("allows_this_machine", [False, True])
def test_nobody_is_led_to_metadata(address: str, allows_this_machine: bool) -> None:
    """However it is spelled, and from wherever one comes."""
    assert why_forbidden(address, allows_this_machine=allows_this_machine)


@pytest.mark.parametrize("inner", ["169.254.169.254", "100.100.100.200", "127.0.0.1", "127.9.9.9"])
@pytest.mark.parametrize("embed", EMBEDDINGS.values(), ids=EMBEDDINGS)
@pytest.mark.parametrize("allows_this_machine", [False, True])
def test_an_embedded_address_forbids_and_never_permits(
    inner: str,
    embed: Callable[[str], str],
    allows_this_machine: bool,
) -> None:
    """Who delivers it decides where it ends up, so it is neither harmless nor this machine."""
    address = embed(inner)
    assert why_forbidden(address, allows_this_machine=allows_this_machine)
    assert not is_loopback(address)
    assert not is_loopback_name(address)
    assert not is_this_machine(address)


@pytest.mark.parametrize("embed", EMBEDDINGS.values(), ids=EMBEDDINGS)
def test_an_embedded_address_that_is_harmless_is_fine(embed: Callable[[str], str]) -> None:
    """Registries behind NAT64 are reached so."""
    for inner in ("10.0.0.7", "8.8.8.127", "203.0.113.224", "52.127.169.254"):
        assert why_forbidden(embed(inner), allows_this_machine=False, is_own=lambda _: False) == ""


@pytest.mark.parametrize("address", LOOPBACK)
def test_only_this_machine_leads_to_this_machine(address: str) -> None:
    """A loopback address is forbidden to all others."""
    assert is_loopback(address)
    assert is_this_machine(address)
    assert why_forbidden(address, allows_this_machine=False) == "this machine itself"
    assert why_forbidden(address, allows_this_machine=True) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' own tables")
def test_the_addresses_of_this_machine_are_this_machine() -> None:
    """Every one that an interface has, and an IPv4 address among them however it is embedded."""
    for address in own_addresses():
        assert is_this_machine(address), address
        assert why_forbidden(address, allows_this_machine=False) == "this machine itself", address
        assert why_forbidden(address, allows_this_machine=True) == "", address
        if ":" not in address:
            for embed in EMBEDDINGS.values():
                assert why_forbidden(embed(address), allows_this_machine=True) == "this machine itself", (
                    address
                )


def test_an_own_address_is_no_loopback_address() -> None:
    """Plain HTTP is for those alone."""
    for address in own_addresses():
        assert is_loopback(address) is ip_address(address).is_loopback


@pytest.mark.parametrize("address", ELSEWHERE)
def test_other_addresses_are_fine_private_ones_too(address: str) -> None:
    """Registries keep their blobs beside themselves."""
    assert not is_loopback(address)
    assert why_forbidden(address, allows_this_machine=False) == ""


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.1", "127.0.0.1"),
        ("2852039166", "169.254.169.254"),
        ("0xa9fea9fe", "169.254.169.254"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("localhost", ""),
        ("registry.example", ""),
        ("1.2.3.4.5", ""),
    ],
)
def test_an_address_is_seen_in_every_spelling(host: str, address: str) -> None:
    assert literal_address(host) == address


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LocalHost.", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("127.1", True),
        ("127.0.0.1.", False),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("registry.example", False),
    ],
)
def test_this_machine_is_known_by_name(host: str, expected: bool) -> None:
    assert is_loopback_name(host) is expected


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
