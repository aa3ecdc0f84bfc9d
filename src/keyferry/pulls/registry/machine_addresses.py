"""Detect the addresses of this machine: packets to them do not leave it."""

from __future__ import annotations

import socket
import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address

__all__ = ["is_machine_address"]

Address = IPv4Address | IPv6Address

# From <linux/netlink.h> and <linux/rtnetlink.h>.
_GET_ROUTE, _NEW_ROUTE, _REQUEST, _DESTINATION, _LOCAL = 26, 24, 1, 1, 2
_HEAD = struct.Struct("=IHHII")
_ROUTE = struct.Struct("=8BI")
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_AT = _HEAD.size + 7
_MOST_BYTES = 1 << 16
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
            answer = sock.recv(_MOST_BYTES)
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
