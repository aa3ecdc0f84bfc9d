"""Which addresses a registry may lead us to: pure functions of an address that is about to be dialled."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

__all__ = ["is_loopback", "is_loopback_name", "literal_address", "why_forbidden"]

Address = IPv4Address | IPv6Address

# Where clouds answer any process of a node, credentials included; link-local ones are forbidden anyway.
_METADATA = tuple(
    map(ip_network, ("fd00:ec2::/32", "fd20:ce::/64", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_IPV4_COMPATIBLE = ip_network("::/96")
_IPV4_BITS = 0xFFFF_FFFF


def is_loopback(address: str) -> bool:
    """Tell whether an address, as text, is this machine itself."""
    return any(meant.is_loopback for meant in _meanings(_parse(address)))


def is_loopback_name(host: str) -> bool:
    """Tell whether a host, as written, is this machine: a loopback address, or ``localhost``."""
    literal = literal_address(host)
    return is_loopback(literal) if literal else host.lower().rstrip(".") == "localhost"


def literal_address(host: str) -> str:
    """The address that *host* is, if it is no name; ``127.1`` and ``0x7f000001`` are addresses too."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return ""


def why_forbidden(address: str, *, allows_loopback: bool) -> str:
    """Why a server must not lead us to *address*, or nothing.

    A registry names the place of its token server and of its blobs. Those of the node itself, and of the cloud's
    metadata, trust whoever can reach them, so nobody outside may have us go there.
    """
    for meant in _meanings(_parse(address)):
        if meant.is_unspecified:
            return "the unspecified address"
        if meant.is_loopback:
            if not allows_loopback:
                return "this machine itself"
        elif meant.is_link_local or any(meant in network for network in _METADATA):
            return "a link-local or metadata address"
        elif meant.is_multicast or meant == IPv4Address(_IPV4_BITS):
            return "a multicast or broadcast address"
    return ""


def _parse(address: str) -> Address:
    return ip_address(address.partition("%")[0])


def _meanings(address: Address) -> tuple[Address, ...]:
    """An address, and the IPv4 address it may be delivered to."""
    if isinstance(address, IPv4Address):
        # 0.0.0.0/8 ends up on this machine, as 0.0.0.0 does.
        return (IPv4Address(0),) if int(address) >> 24 == 0 else (address,)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    is_embedding = any(address in network for network in _NAT64) or (
        address in _IPV4_COMPATIBLE and int(address) > 1
    )
    if inner is None and is_embedding:
        inner = IPv4Address(int(address) & _IPV4_BITS)
    return (address,) if inner is None else (address, *_meanings(inner))
