"""The client of the node agent's Unix socket: one bounded request and answer, or the reason why there is none.

The agent is an accelerator: every failure here is a value, on which the caller does the work itself. Programs that
are started for every call use this module, so it imports neither ``socket`` nor ``json``.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from time import monotonic

try:
    import posix as system  # not os, whose import takes a tenth of a shim's time
except ImportError:
    import os as system  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = [
    "API_VERSION",
    "MAX_NAME_CHARACTERS",
    "Fallback",
    "FallbackReason",
    "SocketReply",
    "ask_agent",
    "find_socket",
    "try_agent",
]

API_VERSION = "agent.keyferry.dev/v1"
VARIABLE = "KEYFERRY_AGENT"
RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"
AUTO, OFF = "auto", "off"
ROOT_SOCKET = "/run/keyferry/agent.sock"
ROOT = 0
CONNECT_SECONDS = 0.2
ANSWER_SECONDS = 20.0
MOST_REQUEST_BYTES = 256 << 10
MOST_HEAD_BYTES = 16 << 10
MOST_BODY_BYTES = 1 << 20
# Of an image or a registry: the agent, its page and docker's helper refuse longer ones before they parse them.
MAX_NAME_CHARACTERS = 1024

_CHUNK = 65536
_LONGEST_LENGTH = 8
_SOCKET, _KIND = 0o140000, 0o170000  # of a file's mode; importing stat takes time
_OTHERS_WRITE = 0o022
_IS_LINUX = sys.platform == "linux"


class FallbackReason(StrEnum):
    """Why the agent gave no answer."""

    OFF = "off"
    ABSENT = "absent"
    UNTRUSTED = "untrusted"
    REFUSED = "refused"
    BUSY = "busy"
    SLOW = "slow"
    GARBLED = "garbled"
    TOO_LARGE = "too large"
    FORBIDDEN = "forbidden"
    STOPPING = "stopping"
    OTHER_CONFIG = "other config"
    OTHER_VERSION = "other version"
    UNKNOWN_PROVIDER = "unknown provider"
    NO_MATCH = "no match"
    NOT_STARTED = "not started"
    FAILED = "failed"


class Fallback:
    """No answer of the agent: the reason, a sentence about it, and whether nobody listens at the socket.

    The socket of an agent that was killed may still be there, so its reason may be another than absence.
    """

    __slots__ = ("is_unattended", "message", "reason")

    def __init__(self, reason: FallbackReason, message: str, *, is_unattended: bool = False) -> None:
        self.reason = reason
        self.message = message
        self.is_unattended = is_unattended

    def __repr__(self) -> str:
        return f"Fallback({self.reason!r}, {self.message!r})"


class SocketReply:
    """An answer of the agent: its HTTP status and its body, which may hold secrets."""

    __slots__ = ("body", "status")

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body

    def __repr__(self) -> str:
        return f"SocketReply({self.status})"

    def read_object(self) -> dict[str, object]:
        """Return the JSON object in the body, or an empty one; no error quotes it."""
        # Imported here: a shim passes bytes on, and reads no JSON.
        from keyferry._core.json import loads
        from keyferry.errors import DocumentError

        found: object = None
        try:
            found = loads(self.body)
        except DocumentError:
            pass
        return found if isinstance(found, dict) else {}


class _NoReplyError(Exception):
    """There is no usable answer: a reason and a sentence."""

    def __init__(self, reason: FallbackReason, message: str, *, is_unattended: bool = False) -> None:
        super().__init__(reason, message)
        self.fallback = Fallback(reason, message, is_unattended=is_unattended)


def find_socket(environ: Mapping[str, str], given: str = "") -> str:
    """Return the path of the agent's socket: *given*, else KEYFERRY_AGENT, else the usual place; empty for none.

    ``off`` means none, ``auto`` the usual place.
    """
    for place in (given, environ.get(VARIABLE, "")):
        if place == OFF:
            return ""
        if place and place != AUTO:
            return place
    if sys.platform == "win32":
        return ""
    if system.geteuid() == 0:
        return ROOT_SOCKET
    runtime = environ.get(RUNTIME_VARIABLE, "")
    return f"{runtime}/keyferry/agent.sock" if runtime.startswith("/") else ""


def ask_agent(
    place: str,
    target: str,
    body: bytes,
    *,
    owner: int | None = ROOT,
    only_uid: int | None = None,
    connect_seconds: float = CONNECT_SECONDS,
    answer_seconds: float = ANSWER_SECONDS,
    most_bytes: int = MOST_BODY_BYTES,
    method: str = "POST",
) -> SocketReply | Fallback:
    """Send a JSON document to the agent whose socket is *place*, and return its answer or the reason for none.

    Nothing is sent unless only root, this user and *owner* can replace the socket; with None as *owner*, that does not
    matter, because the question is no secret. With *only_uid*, nothing is sent unless this user listens. Connecting and
    answering have time limits; an answer has to state its size, and its body has at most *most_bytes*.
    """
    if not place:
        return Fallback(FallbackReason.OFF, "no agent is configured")
    if len(body) > MOST_REQUEST_BYTES:
        return Fallback(FallbackReason.TOO_LARGE, f"the request has more than {MOST_REQUEST_BYTES} bytes")
    try:
        connection = _connect(place, connect_seconds, owner)
        try:
            if only_uid is not None:
                _check_listener(connection, place, only_uid)
            until = monotonic() + answer_seconds
            _send(connection, _head(method, target, len(body)) + body, until)
            return _receive(connection, until, most_bytes)
        finally:
            connection.close()
    except _NoReplyError as error:
        return error.fallback


def try_agent(
    place: str, connect_seconds: float = CONNECT_SECONDS, *, owner: int | None = ROOT
) -> Fallback | None:
    """Connect to the agent and ask nothing; return the reason if that is impossible."""
    if not place:
        return Fallback(FallbackReason.OFF, "no agent is configured")
    try:
        _connect(place, connect_seconds, owner).close()
    except _NoReplyError as error:
        return error.fallback
    return None


def _connect(place: str, seconds: float, owner: int | None) -> Any:
    folder, _, name = place.rpartition("/")
    if not place.startswith("/") or not name:
        raise _NoReplyError(FallbackReason.ABSENT, f"{place!r} is not the absolute path of a socket")
    try:
        flags = (system.O_PATH if _IS_LINUX else system.O_RDONLY) | system.O_DIRECTORY | system.O_CLOEXEC
        fd = system.open(folder or "/", flags)
    except OSError as error:
        raise _unreachable(place, error) from None
    try:
        if owner is not None:
            _check(fd, folder, name, owner)
        return _open_socket(f"/proc/self/fd/{fd}/{name}" if _IS_LINUX else place, place, seconds)
    except OSError as error:
        raise _unreachable(place, error) from None
    finally:
        system.close(fd)


def _check(fd: int, folder: str, name: str, owner: int) -> None:
    """Raise unless only root, this user and *owner* can change the folder, and the socket in it is theirs."""
    trusted = (ROOT, system.geteuid(), owner)
    found = system.fstat(fd)
    if found.st_uid not in trusted or found.st_mode & _OTHERS_WRITE:
        raise _NoReplyError(
            FallbackReason.UNTRUSTED,
            f"the socket's folder {folder!r} belongs to user {found.st_uid} and has mode {found.st_mode & 0o7777:04o};"
            " expected root or this user, and nobody else who can write",
        )
    found = system.stat(name, dir_fd=fd, follow_symlinks=False)
    if found.st_uid not in trusted or found.st_mode & _KIND != _SOCKET:
        raise _NoReplyError(
            FallbackReason.UNTRUSTED, f"{folder + '/' + name!r} is not a socket of root or of this user"
        )


def _check_listener(connection: Any, place: str, uid: int) -> None:
    """Raise unless a process of this user listens."""
    import _socket

    # struct ucred: the ids of the process, the user and the group, with 4 bytes each.
    found = int.from_bytes(
        connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], sys.byteorder
    )
    if found != uid:
        message = f"another user than {uid} listens at {place!r}"
        raise _NoReplyError(FallbackReason.UNTRUSTED, message)


def _open_socket(address: str, place: str, seconds: float) -> Any:
    import _socket  # not socket, which imports selectors and enum

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        # A blocking connect: Python's own time limit gives up at once where the queue of connections is full.
        _limit(connection, _socket.SO_SNDTIMEO, seconds)
        connection.connect(address)
    except BlockingIOError:
        connection.close()
        message = f"the agent at {place!r} accepts no connection within {seconds:g} seconds"
        raise _NoReplyError(FallbackReason.BUSY, message) from None
    except OSError as error:
        connection.close()
        if error.errno is None:  # the one error that is Python's own
            raise _too_long(address, place) from None
        raise
    return connection


def _too_long(address: str, place: str) -> _NoReplyError:
    """Return the error for an address that the system cannot have; only the name counts if the folder is open."""
    what, start = ("path", 0) if address == place else ("name", address.rindex("/") + 1)
    shown = address[start:]
    most = (107 if _IS_LINUX else 103) - start
    size = len(shown.encode("utf-8", "surrogateescape"))
    message = f"the {what} {shown!r} of the agent's socket has {size} bytes, expected at most {most}"
    return _NoReplyError(FallbackReason.ABSENT, f"{message}; have the agent listen at a shorter one")


def _unreachable(place: str, error: OSError) -> _NoReplyError:
    is_absent = isinstance(error, (FileNotFoundError, NotADirectoryError))
    reason = FallbackReason.ABSENT if is_absent else FallbackReason.REFUSED
    message = f"the agent at {place!r} cannot be reached: {(error.strerror or 'unknown').lower()}"
    return _NoReplyError(
        reason, message, is_unattended=is_absent or isinstance(error, ConnectionRefusedError)
    )


def _limit(connection: Any, option: int, seconds: float) -> None:
    """Set a time limit of the system, as the ``struct timeval`` of 64-bit systems."""
    import _socket

    whole, part = divmod(max(round(seconds * 1_000_000), 1), 1_000_000)
    value = whole.to_bytes(8, sys.byteorder) + part.to_bytes(8, sys.byteorder)
    connection.setsockopt(_socket.SOL_SOCKET, option, value)


def _head(method: str, target: str, size: int) -> bytes:
    return (
        f"{method} {target} HTTP/1.1\r\nHost: keyferry-agent\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


def _send(connection: Any, data: bytes, until: float) -> None:
    import _socket

    view = memoryview(data)
    while view:
        _limit(connection, _socket.SO_SNDTIMEO, _left(until))
        try:
            view = view[connection.send(view) :]
        except OSError as error:
            raise _broken(error) from None


def _receive(connection: Any, until: float, most_bytes: int) -> SocketReply:
    import _socket

    data, head = bytearray(), None
    while True:
        if head is None:
            head = read_head(data, most_bytes)
        if head is not None and len(data) >= head[1] + head[2]:
            break
        _limit(connection, _socket.SO_RCVTIMEO, _left(until))
        try:
            chunk = connection.recv(_CHUNK)
        except OSError as error:
            raise _broken(error) from None
        if not chunk:
            raise _NoReplyError(FallbackReason.GARBLED, "the agent's answer ends early")
        data += chunk
    status, start, size = head
    if len(data) != start + size:
        raise _NoReplyError(FallbackReason.GARBLED, "the agent's answer is longer than it says")
    return SocketReply(status, bytes(memoryview(data)[start:]))


def _left(until: float) -> float:
    left = until - monotonic()
    if left <= 0:
        raise _NoReplyError(FallbackReason.SLOW, "the agent did not answer in time")
    return left


def _broken(error: OSError) -> _NoReplyError:
    if isinstance(error, BlockingIOError):
        return _NoReplyError(FallbackReason.SLOW, "the agent did not answer in time")
    return _NoReplyError(
        FallbackReason.REFUSED, f"the agent broke off: {(error.strerror or 'unknown').lower()}"
    )


def read_head(data: bytes | bytearray, most_bytes: int = MOST_BODY_BYTES) -> tuple[int, int, int] | None:
    """Return the status, the place and the size of the body of an answer, or None while its head has not ended."""
    end = data.find(b"\r\n\r\n")
    if end < 0 and len(data) <= MOST_HEAD_BYTES:
        return None
    if not 0 <= end <= MOST_HEAD_BYTES:
        raise _NoReplyError(FallbackReason.TOO_LARGE, "the head of the agent's answer does not end")
    first, *lines = data[:end].split(b"\r\n")
    sizes = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon and name.lower() == b"transfer-encoding":
            raise _NoReplyError(FallbackReason.GARBLED, "the agent's answer does not state its size")
        if colon and name.lower() == b"content-length":
            sizes.append(value.strip(b" \t"))
    status = _read_status(first)
    if not status or len(sizes) != 1 or not sizes[0].isdigit() or len(sizes[0]) > _LONGEST_LENGTH:
        raise _NoReplyError(
            FallbackReason.GARBLED, "the agent's answer is not HTTP/1.1 with one Content-Length"
        )
    if int(sizes[0]) > most_bytes:
        raise _NoReplyError(FallbackReason.TOO_LARGE, f"the agent's answer has more than {most_bytes} bytes")
    return status, end + 4, int(sizes[0])


def _read_status(line: bytes | bytearray) -> int:
    """Return the status of an answer's first line, or 0 if it has none."""
    digits = line[9:12]
    is_read = (
        line.startswith(b"HTTP/1.1 ") and len(digits) == 3 and digits.isdigit() and line[12:13] in (b"", b" ")
    )
    status = int(digits) if is_read else 0
    return status if status >= 200 else 0
