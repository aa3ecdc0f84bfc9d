"""The user at the other end of a connection over loopback, by the kernel's table of sockets."""

from __future__ import annotations

import socket
import struct

__all__ = ["loopback_uid"]

# linux/sock_diag.h, linux/inet_diag.h; Python has no names for them.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFF
_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_REST = struct.Struct("=III")
_ADDRESS_BYTES = 16
# After the head of the message: family and others, the two ends, and three numbers.
_UID = struct.Struct("=I")
_UID_AT = _HEAD.size + 4 + 48 + 12
_PATIENCE_SECONDS = 1.0


def loopback_uid(connected: socket.socket) -> int | None:
    """Return the user whose process made a connection from this machine; None if the kernel does not tell."""
    client, server = connected.getpeername(), connected.getsockname()
    ends = _PORTS.pack(client[1], server[1]) + b"".join(
        socket.inet_pton(connected.family, end[0]).ljust(_ADDRESS_BYTES, b"\0") for end in (client, server)
    )
    body = _QUESTION.pack(connected.family, socket.IPPROTO_TCP, 0, _ALL_STATES) + ends
    body += _REST.pack(0, _NO_COOKIE, _NO_COOKIE)
    message = _HEAD.pack(_HEAD.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0) + body
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
            asking.settimeout(_PATIENCE_SECONDS)
            asking.send(message)
            reply = asking.recv(4096)
    except OSError:
        return None
    is_answer = len(reply) >= _UID_AT + _UID.size and _HEAD.unpack_from(reply)[1] == _SOCK_DIAG_BY_FAMILY
    return _UID.unpack_from(reply, _UID_AT)[0] if is_answer else None
