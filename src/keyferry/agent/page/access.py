"""Who may see the page: who connects, what a request has to be, links that work once, and the sessions they open.

Links are given to callers of the socket who may manage the agent. All of it is in the memory of one process: a restart
ends every session.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from keyferry._core.values import Value
from keyferry.agent.access import Caller

LINK_SECONDS = 60
SESSION_SECONDS = 12 * 3600
_KEY_BYTES = 32
# The oldest gives way to a new one.
_MAX_LINKS = _MAX_SESSIONS = 64
_MAX_SPENT = 256
_T = TypeVar("_T")
KEPT_HEADERS = frozenset((b"host", b"origin", b"cookie", b"sec-fetch-site"))
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    f"content-security-policy: {_POLICY}\r\n"
    "cache-control: no-store\r\n"
    "x-content-type-options: nosniff\r\n"
    "x-frame-options: DENY\r\n"
    "referrer-policy: no-referrer\r\n"
    "cross-origin-opener-policy: same-origin\r\n"
    "cross-origin-resource-policy: same-origin\r\n"
).encode()
_HTTP_PORT = 80
# linux/sock_diag.h, linux/inet_diag.h; Python has no names for them.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NETLINK_REQUEST = 1
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFF
_NETLINK_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_QUESTION_REST = struct.Struct("=III")
_ADDRESS_BYTES = 16
# After the head of the message: family and others, the two ends, and three numbers.
_UID_FIELD = struct.Struct("=I")
_UID_AT = _NETLINK_HEAD.size + 4 + 48 + 12
_KERNEL_SECONDS = 1.0


def loopback_uid(connected: socket.socket) -> int | None:
    """Return the user whose process made a connection from this machine; None if the kernel does not tell."""
    client, server = connected.getpeername(), connected.getsockname()
    ends = _PORTS.pack(client[1], server[1]) + b"".join(
        socket.inet_pton(connected.family, end[0]).ljust(_ADDRESS_BYTES, b"\0") for end in (client, server)
    )
    body = _QUESTION.pack(connected.family, socket.IPPROTO_TCP, 0, _ALL_STATES) + ends
    body += _QUESTION_REST.pack(0, _NO_COOKIE, _NO_COOKIE)
    message = (
        _NETLINK_HEAD.pack(_NETLINK_HEAD.size + len(body), _SOCK_DIAG_BY_FAMILY, _NETLINK_REQUEST, 0, 0)
        + body
    )
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
            asking.settimeout(_KERNEL_SECONDS)
            asking.send(message)
            reply = asking.recv(4096)
    except OSError:
        return None
    is_answer = (
        len(reply) >= _UID_AT + _UID_FIELD.size
        and _NETLINK_HEAD.unpack_from(reply)[1] == _SOCK_DIAG_BY_FAMILY
    )
    return _UID_FIELD.unpack_from(reply, _UID_AT)[0] if is_answer else None


class PageRefusal(Value):
    """Why a request is refused, and the status that says so."""

    status: int
    text: str


def own_hosts(address: str, port: int) -> frozenset[str]:
    """Return what a browser may call this server: by its address or as localhost, with its port."""
    names = (f"[{address}]" if ":" in address else address, "localhost")
    hosts = {f"{name}:{port}" for name in names}
    return frozenset(hosts | set(names) if port == _HTTP_PORT else hosts)


def refuse_headers(headers: Mapping[bytes, bytes], hosts: frozenset[str]) -> PageRefusal | None:
    """Return why a request is not from a page of this server or from the browser's address bar; None if it is.

    A name that leads here by a change of its address (DNS rebinding) has an origin that equals its host, so that only
    a list of hosts keeps it out. A server on another port of this machine is the same site, and another origin.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if host not in hosts:
        text = f"this server is {' or '.join(sorted(hosts))}; if a port is forwarded, its number has to stay the same"
        return PageRefusal(status=421, text=text)
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
        return PageRefusal(status=403, text="the request comes from another page")
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return PageRefusal(
            status=403,
            text="the request comes from another page; type or paste the link into the address bar",
        )
    return None


def cookie_of(headers: Mapping[bytes, bytes], name: str) -> str:
    """Return the value of a cookie; empty if it was not sent."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value
    return ""


class LinkProblem(StrEnum):
    """Why a link does not open the page."""

    USED = "used"
    LATE = "late"
    OTHER_USER = "other-user"
    UNKNOWN = "unknown"


class _Grant(Value):
    """For whom a link or a session is, until when, and the user at the other end of the connection, if it is known."""

    caller: Caller
    until: float
    peer_uid: int | None


class PageAccess:
    """Links and sessions; of their keys, only hashes are kept, under a key of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(_KEY_BYTES)
        self._links: dict[bytes, _Grant] = {}
        self._spent: dict[bytes, LinkProblem] = {}
        self._sessions: dict[bytes, _Grant] = {}

    def make_link(self, caller: Caller) -> str:
        """Return the key of a new link for a caller."""
        grant = _Grant(caller=caller, until=self._clock() + LINK_SECONDS, peer_uid=None)
        return self._add(self._links, grant, _MAX_LINKS)

    def open_session(self, key: str, peer_uid: int | None) -> str | LinkProblem:
        """Return the key of a new session for who has the key of a link, or why there is none.

        The link of a user other than root is for this user alone, where it is known who connects.
        """
        digest = self._digest(key)
        found = _find(self._links, digest)
        if found is None:
            spent = _find(self._spent, digest)
            return LinkProblem.UNKNOWN if spent is None else spent
        if self._clock() > found.until:
            self._spend(digest, LinkProblem.LATE)
            return LinkProblem.LATE
        if found.caller.uid and peer_uid not in (None, 0, found.caller.uid):
            return LinkProblem.OTHER_USER
        self._spend(digest, LinkProblem.USED)
        grant = _Grant(caller=found.caller, until=self._clock() + SESSION_SECONDS, peer_uid=peer_uid)
        return self._add(self._sessions, grant, _MAX_SESSIONS)

    def find_caller(self, key: str, peer_uid: int | None) -> Caller | None:
        """Return who asked for the link of a session; None without a session, or for another user's connection."""
        digest = self._digest(key)
        found = _find(self._sessions, digest)
        if found is None or found.peer_uid != peer_uid:
            return None
        if self._clock() > found.until:
            del self._sessions[digest]
            return None
        return found.caller

    def _add(self, grants: dict[bytes, _Grant], grant: _Grant, most: int) -> str:
        key = secrets.token_urlsafe(_KEY_BYTES)
        while len(grants) >= most:
            del grants[next(iter(grants))]
        grants[self._digest(key)] = grant
        return key

    def _spend(self, digest: bytes, problem: LinkProblem) -> None:
        self._links.pop(digest, None)
        while len(self._spent) >= _MAX_SPENT:
            del self._spent[next(iter(self._spent))]
        self._spent[digest] = problem

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._secret, key.encode("utf-8", "replace"), "sha256")


def _find(table: dict[bytes, _T], digest: bytes) -> _T | None:
    """Return the value of a digest, in a time that does not depend on which bytes are equal."""
    found = None
    for known, value in table.items():
        if hmac.compare_digest(known, digest):
            found = value
    return found
