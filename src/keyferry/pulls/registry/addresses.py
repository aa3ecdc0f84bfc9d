"""Rules for the addresses that a registry may direct requests to, applied before a connection is made."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from keyferry._net.address import is_loopback_host

Address = IPv4Address | IPv6Address

# The addresses of cloud metadata services, which serve credentials to any process of a node. Link-local ones are
# forbidden by another rule.
_METADATA = tuple(
    map(ip_network, ("fd00:ec2::/32", "fd20:ce::/64", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
_IPV4_BITS = 0xFFFF_FFFF
_LOOPBACK_6 = IPv6Address("::1")
# IPv6 networks whose addresses contain an IPv4 address, and by how many bits it is shifted: mapped, translated,
# compatible, NAT64, 6to4, and the server of Teredo.
_EMBEDDING = tuple(
    (ip_network(network), shift)
    for network, shift in (
        ("::ffff:0:0/96", 0),
        ("::ffff:0:0:0/96", 0),
        ("::/96", 0),
        ("64:ff9b::/96", 0),
        ("2002::/16", 80),
        ("2001::/32", 64),
    )
)
_TEREDO = ip_network("2001::/32")
# For a network's own NAT64, with prefixes of 48, 56, 64 or 96 bits.
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
_LOCAL_NAT64_SHIFTS = (40, 32, 24)
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
# From <linux/netlink.h> and <linux/rtnetlink.h>.
_GET_ROUTE, _NEW_ROUTE, _REQUEST, _DESTINATION, _LOCAL = 26, 24, 1, 1, 2
_HEAD = struct.Struct("=IHHII")
_ROUTE = struct.Struct("=8BI")
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_AT = _HEAD.size + 7
_MAX_BYTES = 1 << 16
_PATIENCE_SECONDS = 5.0
_DISCARD_PORT = 9


def is_machine_address(address: Address) -> bool:
    """Return whether *address* belongs to this machine: loopback, an interface's, or routed to this machine."""
    if sys.platform == "linux":
        try:
            return _is_routed_here(address)
        except OSError:
            pass  # a service may be denied netlink sockets
    try:
        return _source_towards(address) == address
    except OSError:
        return False


if sys.platform == "linux":

    def _is_routed_here(address: Address) -> bool:
        """Return whether the kernel's route to an address is local; unlike a list of interfaces, routes cover all."""
        attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(address.packed), _DESTINATION) + address.packed
        route = _ROUTE.pack(_family(address), address.max_prefixlen, 0, 0, 0, 0, 0, 0, 0) + attribute
        head = _HEAD.pack(_HEAD.size + len(route), _GET_ROUTE, _REQUEST, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
            sock.settimeout(_PATIENCE_SECONDS)
            sock.send(head + route)
            answer = sock.recv(_MAX_BYTES)
        if _HEAD.unpack_from(answer)[1] != _NEW_ROUTE:
            return False  # there is no route
        return answer[_TYPE_AT] == _LOCAL


def _source_towards(address: Address) -> Address:
    """Return the source address of packets to *address*; for an address of this machine it is the same.

    Nothing is sent.
    """
    with socket.socket(_family(address), socket.SOCK_DGRAM) as sock:
        sock.connect((str(address), _DISCARD_PORT))
        return ip_address(str(sock.getsockname()[0]).partition("%")[0])


def _family(address: Address) -> int:
    return socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6


def is_loopback(address: str) -> bool:
    """Return whether an address, given as text, is a loopback address.

    A 6to4, NAT64 or Teredo address that only contains a loopback address may belong to any machine, and is not.
    """
    return _is_loopback(_parse(address))


def is_this_machine(address: str) -> bool:
    """Return whether an address, given as text, is a loopback address or another address of this machine."""
    parsed = _parse(address)
    return _is_loopback(parsed) or is_machine_address(parsed)


def is_loopback_name(host: str) -> bool:
    """Return whether a host, as written, is a loopback address or ``localhost``."""
    name = literal_address(host) or host.lower()
    return is_loopback_host(name) or name == "localhost."


def literal_address(host: str) -> str:
    """Return *host* as an address, or an empty string if it is a name; ``127.1`` and ``0x7f000001`` are addresses."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return ""


def why_forbidden(
    address: str, *, allows_this_machine: bool, is_own: Callable[[Address], bool] = is_machine_address
) -> str:
    """Return the reason why a server must not direct requests to *address*, or an empty string.

    A registry names the addresses of its token server and its blobs. Services of the node and of the cloud's metadata
    trust every client that can reach them, so a server elsewhere must not direct requests to them. With
    *allows_this_machine*, addresses of this machine are allowed, but not addresses that only contain one of them.
    """
    parsed = _parse(address)
    for meant in (parsed, *_embedded(parsed)):
        if meant.is_unspecified or (isinstance(meant, IPv4Address) and int(meant) >> 24 == 0):
            # Connections to 0.0.0.0/8 reach this machine, like those to 0.0.0.0.
            return "the unspecified address"
        if meant.is_link_local or any(meant in network for network in _METADATA):
            return "a link-local or metadata address"
        if meant.is_multicast or meant == IPv4Address(_IPV4_BITS):
            return "a multicast or broadcast address"
        if (_is_loopback(meant) or is_own(meant)) and not (allows_this_machine and meant is parsed):
            return "this machine itself"
    return ""


def _parse(address: str) -> Address:
    return ip_address(address.partition("%")[0])


def _is_loopback(address: Address) -> bool:
    # Not by the property: from Python 3.13 on it is also True for mapped addresses.
    return is_loopback_host(str(address))


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address may contain, by any of the known encodings."""
    if isinstance(address, IPv4Address) or address == _LOOPBACK_6 or address.is_unspecified:
        return
    number = int(address)
    for network, shift in _EMBEDDING:
        if address in network:
            yield _ipv4(number >> shift)
    if address in _TEREDO:
        yield _ipv4(~number)
    if address in _LOCAL_NAT64:
        yield _in_local_nat64(number)
    if number >> 32 & _IPV4_BITS in _ISATAP:
        yield _ipv4(number)


def _in_local_nat64(number: int) -> IPv4Address:
    """Return the IPv4 address after a prefix of unknown length; zeros follow it, unless it is at the end (RFC 6052)."""
    # Byte 8 is always zero, and for the shorter prefixes it splits the IPv4 address, so it is removed first.
    number = number >> 64 << 56 | number & (1 << 56) - 1
    for shift in _LOCAL_NAT64_SHIFTS:
        found = _ipv4(number >> shift)
        if not number & (1 << shift) - 1 and int(found) >> 24:
            return found
    return _ipv4(number)


def _ipv4(number: int) -> IPv4Address:
    return IPv4Address(number & _IPV4_BITS)
