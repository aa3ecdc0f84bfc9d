"""Addresses that a server listens at, as settings give them: an IP address and a port, or the path of a socket."""

from __future__ import annotations

from keyferry._core.values import Value

_MAX_PORT = 65535
# sockaddr_un of Linux has 108 bytes, the last of which is 0. A draft beside the socket has a dot and the id of its
# process in its name, which has at most 7 digits.
MAX_SOCKET_PATH = 107 - 8


class ListenAddress(Value):
    """An IP address, without brackets, and a port; port 0 stands for any that is free."""

    host: str
    port: int
    is_loopback: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress | None:
    """Return the address in a text such as ``127.0.0.1:9750`` or ``[::1]:9750``; None if it has none.

    Host names are not accepted: what they stand for may change, and may be more than this machine's loopback.
    """
    from ipaddress import IPv6Address, ip_address

    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > _MAX_PORT:
        return None
    try:
        address = ip_address(host[1:-1] if is_bracketed else host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) is not is_bracketed:
        return None
    return ListenAddress(host=str(address), port=int(port), is_loopback=address.is_loopback)


def why_too_long(path: object) -> str:
    """Return why no agent can listen at the path of a socket; empty if its length is no obstacle."""
    size = len(str(path).encode("utf-8", "surrogateescape"))
    if size <= MAX_SOCKET_PATH:
        return ""
    return (
        f"found a path of {size} bytes, expected at most {MAX_SOCKET_PATH}, because the system has no longer "
        "addresses of sockets; use a folder with a shorter path, such as /run/keyferry"
    )
