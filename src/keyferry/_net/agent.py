"""The client of the node agent's Unix socket: one bounded request and answer, or the reason why there is none.

The agent is an accelerator: every failure here is a value, on which the caller does the work itself.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from collections.abc import Mapping
from enum import StrEnum

from keyferry._core.gotext import go_strerror
from keyferry._core.json import dumps, loads
from keyferry._core.values import Value, field
from keyferry._net.connection import Connection
from keyferry._net.deadline import Deadline
from keyferry._net.errors import ClosedEarlyError, MalformedAnswerError
from keyferry._net.messages import Incoming, encode_request_head
from keyferry.errors import DocumentError

API_VERSION = "agent.keyferry.dev/v1"
AGENT_VARIABLE = "KEYFERRY_AGENT"
RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"
AUTO, OFF = "auto", "off"
ROOT_SOCKET = "/run/keyferry/agent.sock"
ROOT = 0
CONNECT_SECONDS = 0.2
ANSWER_SECONDS = 20.0
MAX_REQUEST_BYTES = 256 << 10
MAX_BODY_BYTES = 1 << 20
# Of an image or a registry: the agent, its page and docker's helper refuse longer ones before they parse them.
MAX_NAME_CHARACTERS = 1024

_MAX_LENGTH_DIGITS = 8
_NOT_HTTP = "the agent's answer is not HTTP/1.1 with one Content-Length"
_OTHERS_WRITE = 0o022
_IS_LINUX = sys.platform == "linux"
_MAX_PATH_BYTES = 107 if _IS_LINUX else 103


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


class Fallback(Value):
    """No answer of the agent: the reason, a sentence about it, and whether nobody listens at the socket.

    The socket of an agent that was killed may still be there, so its reason may be another than absence.
    """

    reason: FallbackReason
    message: str
    is_unattended: bool = False


class SocketReply(Value):
    """An answer of the agent: its HTTP status and its body, which may hold secrets."""

    status: int
    body: bytes = field(repr=False)

    def read_object(self) -> dict[str, object]:
        """Return the JSON object in the body, or an empty one; no error quotes it."""
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
        self.fallback = Fallback(reason=reason, message=message, is_unattended=is_unattended)


def find_socket(environ: Mapping[str, str], given: str = "") -> str:
    """Return the path of the agent's socket: *given*, else KEYFERRY_AGENT, else the usual place; empty for none.

    ``off`` means none, ``auto`` the usual place.
    """
    for place in (given, environ.get(AGENT_VARIABLE, "")):
        if place == OFF:
            return ""
        if place and place != AUTO:
            return place
    if sys.platform == "win32":
        return ""
    if os.geteuid() == ROOT:
        return ROOT_SOCKET
    runtime = environ.get(RUNTIME_VARIABLE, "")
    return f"{runtime}/keyferry/agent.sock" if runtime.startswith("/") else ""


def encode_question(kind: str, fields: Mapping[str, object]) -> bytes:
    """Return a document of the agent's protocol as the body of a request."""
    return dumps({"apiVersion": API_VERSION, "kind": kind, **fields}).encode("utf-8", "surrogateescape")


def ask_agent(
    place: str,
    target: str,
    body: bytes = b"",
    *,
    owner: int | None = ROOT,
    only_uid: int | None = None,
    connect_seconds: float = CONNECT_SECONDS,
    answer_seconds: float = ANSWER_SECONDS,
    max_bytes: int = MAX_BODY_BYTES,
    method: str = "POST",
) -> SocketReply | Fallback:
    """Send a JSON document to the agent whose socket is *place*, and return its answer or the reason for none.

    Nothing is sent unless only root, this user and *owner* can replace the socket; with None as *owner*, that does not
    matter, because the question is no secret. With *only_uid*, nothing is sent unless this user listens. Connecting and
    answering have time limits; an answer has to state its size, and its body has at most *max_bytes*.
    """
    headers = [
        ("Host", "keyferry-agent"),
        ("Connection", "close"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
    ]
    try:
        if len(body) > MAX_REQUEST_BYTES:
            raise _NoReplyError(
                FallbackReason.TOO_LARGE, f"the request has more than {MAX_REQUEST_BYTES} bytes"
            )
        with _connect(place, connect_seconds, owner) as opened:
            if only_uid is not None:
                _check_listener(opened, place, only_uid)
            connection = Connection(opened, Deadline(answer_seconds))
            connection.send(encode_request_head(method, target, headers) + body)
            return _receive(connection, max_bytes)
    except _NoReplyError as error:
        return error.fallback
    except (OSError, ClosedEarlyError, MalformedAnswerError) as error:
        return _explain(error)


def try_agent(
    place: str, connect_seconds: float = CONNECT_SECONDS, *, owner: int | None = ROOT
) -> Fallback | None:
    """Connect to the agent and ask nothing; return the reason if that is impossible."""
    try:
        _connect(place, connect_seconds, owner).close()
    except _NoReplyError as error:
        return error.fallback
    return None


def is_trusted(place: str) -> bool:
    """Return whether only root and this user can replace the socket at the absolute path *place*."""
    folder, _, name = place.rpartition("/")
    try:
        fd = _open_folder(folder)
        try:
            _check_owners(fd, folder, name, ROOT)
        finally:
            os.close(fd)
    except (OSError, _NoReplyError):
        return False
    return True


def _open_folder(folder: str) -> int:
    flags = (os.O_PATH if _IS_LINUX else os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
    return os.open(folder or "/", flags)


def _connect(place: str, seconds: float, owner: int | None) -> socket.socket:
    if not place:
        raise _NoReplyError(FallbackReason.OFF, "no agent is configured")
    folder, _, name = place.rpartition("/")
    if not place.startswith("/") or not name:
        raise _NoReplyError(FallbackReason.ABSENT, f"{place!r} is not the absolute path of a socket")
    try:
        fd = _open_folder(folder)
        try:
            if owner is not None:
                _check_owners(fd, folder, name, owner)
            # Through the folder that was checked, so that nobody can put another one in its place.
            return _open_socket(f"/proc/self/fd/{fd}/{name}" if _IS_LINUX else place, place, seconds)
        finally:
            os.close(fd)
    except OSError as error:
        is_absent = isinstance(error, (FileNotFoundError, NotADirectoryError))
        raise _NoReplyError(
            FallbackReason.ABSENT if is_absent else FallbackReason.REFUSED,
            f"the agent at {place!r} cannot be reached: {go_strerror(error)}",
            is_unattended=is_absent or isinstance(error, ConnectionRefusedError),
        ) from None


def _check_owners(fd: int, folder: str, name: str, owner: int) -> None:
    """Raise unless only root, this user and *owner* can change the folder, and the socket in it is theirs."""
    trusted = (ROOT, os.geteuid(), owner)
    found = os.fstat(fd)
    if found.st_uid not in trusted or found.st_mode & _OTHERS_WRITE:
        raise _NoReplyError(
            FallbackReason.UNTRUSTED,
            f"the socket's folder {folder!r} belongs to user {found.st_uid} and has mode "
            f"{stat.S_IMODE(found.st_mode):04o}; expected root or this user, and nobody else who can write",
        )
    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if found.st_uid not in trusted or not stat.S_ISSOCK(found.st_mode):
        raise _NoReplyError(
            FallbackReason.UNTRUSTED, f"{folder + '/' + name!r} is not a socket of root or of this user"
        )


def _open_socket(address: str, place: str, seconds: float) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    try:
        # The system's time limit: Python's own gives up at once where the queue of connections is full.
        whole, part = divmod(max(round(seconds * 1_000_000), 1), 1_000_000)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", whole, part))
        opened.connect(address)
    except BlockingIOError:
        opened.close()
        message = f"the agent at {place!r} accepts no connection within {seconds:g} seconds"
        raise _NoReplyError(FallbackReason.BUSY, message) from None
    except OSError as error:
        opened.close()
        if error.errno is None:  # the one error that is Python's own
            raise _NoReplyError(FallbackReason.ABSENT, _too_long(address, place)) from None
        raise
    return opened


def _too_long(address: str, place: str) -> str:
    """Return the message for an address that the system cannot have; only the name counts if the folder is open."""
    what, start = ("path", 0) if address == place else ("name", address.rindex("/") + 1)
    shown = address[start:]
    return (
        f"the {what} {shown!r} of the agent's socket has {len(os.fsencode(shown))} bytes, expected at most "
        f"{_MAX_PATH_BYTES - start}; have the agent listen at a shorter one"
    )


def _check_listener(opened: socket.socket, place: str, uid: int) -> None:
    """Raise unless a process of this user listens."""
    # struct ucred: the ids of the process, the user and the group.
    credentials = struct.Struct("3i")
    data = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    if credentials.unpack(data)[1] != uid:
        raise _NoReplyError(FallbackReason.UNTRUSTED, f"another user than {uid} listens at {place!r}")


def _receive(connection: Connection, max_bytes: int) -> SocketReply:
    incoming = Incoming(connection.receive)
    head = incoming.read_head()
    if head.values("transfer-encoding"):
        raise _NoReplyError(FallbackReason.GARBLED, "the agent's answer does not state its size")
    sizes = head.values("content-length")
    is_size = len(sizes) == 1 and sizes[0].isdecimal() and len(sizes[0]) <= _MAX_LENGTH_DIGITS
    if head.version != "HTTP/1.1" or not is_size:
        raise _NoReplyError(FallbackReason.GARBLED, _NOT_HTTP)
    if int(sizes[0]) > max_bytes:
        raise _NoReplyError(FallbackReason.TOO_LARGE, f"the agent's answer has more than {max_bytes} bytes")
    body = b"".join(incoming.read_body(head))
    if incoming.has_more:
        raise _NoReplyError(FallbackReason.GARBLED, "the agent's answer is longer than it says")
    return SocketReply(status=head.status, body=body)


def _explain(error: OSError | ClosedEarlyError | MalformedAnswerError) -> Fallback:
    if isinstance(error, TimeoutError):
        return Fallback(reason=FallbackReason.SLOW, message="the agent did not answer in time")
    if isinstance(error, ClosedEarlyError):
        return Fallback(reason=FallbackReason.GARBLED, message="the agent's answer ends early")
    if isinstance(error, MalformedAnswerError):
        return Fallback(reason=FallbackReason.GARBLED, message=_NOT_HTTP)
    message = f"the agent broke off: {go_strerror(error)}"
    return Fallback(reason=FallbackReason.REFUSED, message=message)
