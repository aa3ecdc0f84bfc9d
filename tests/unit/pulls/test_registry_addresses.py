"""Which addresses a server may lead us to."""

import pytest

from keyferry.pulls.registry_addresses import is_loopback, is_loopback_name, literal_address, why_forbidden

METADATA = [
    "169.254.169.254",
    "169.254.170.23",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "100.100.100.200",
    "168.63.129.16",
]
UNSPECIFIED = ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"]  # noqa: S104 - nothing binds to it
HERE = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
ELSEWHERE = ["10.0.0.7", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd12:3456::1", "::ffff:10.0.0.7"]


@pytest.mark.parametrize("address", [*METADATA, *UNSPECIFIED, "224.0.0.1", "ff02::1", "255.255.255.255"])
@pytest.mark.parametrize("allows_loopback", [False, True])
def test_nobody_is_led_to_metadata(address: str, allows_loopback: bool) -> None:  # noqa: FBT001 - a parameter
    """However it is spelled, and from wherever one comes."""
    assert why_forbidden(address, allows_loopback=allows_loopback)


@pytest.mark.parametrize("address", HERE)
def test_only_this_machine_leads_to_this_machine(address: str) -> None:
    assert is_loopback(address)
    assert why_forbidden(address, allows_loopback=False) == "this machine itself"
    assert why_forbidden(address, allows_loopback=True) == ""


@pytest.mark.parametrize("address", ELSEWHERE)
def test_other_addresses_are_fine_private_ones_too(address: str) -> None:
    """Registries keep their blobs beside themselves."""
    assert not is_loopback(address)
    assert why_forbidden(address, allows_loopback=False) == ""


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
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("registry.example", False),
    ],
)
def test_this_machine_is_known_by_name(host: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    assert is_loopback_name(host) is expected
