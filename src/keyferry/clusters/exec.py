"""Run a command in a container of a pod through the API server, as ``kubectl exec`` does, by WebSocket.

The connection is that of any request of the session, with its proxy, its TLS and its credential; ``websockets`` splits
the bytes into frames. Everything that arrives is limited, in bytes and in time.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from enum import IntEnum
from hashlib import sha1
from logging import CRITICAL, Logger
from os import urandom
from time import monotonic

from keyferry._core.extras import missing_extra
from keyferry._core.json import read_object
from keyferry._core.values import Value, field
from keyferry._net.client import Tunnel
from keyferry._net.deadline import Deadline
from keyferry._net.forms import encode_percent, encode_query
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiAction, ApiProblem, Json, problem_of, read_status
from keyferry.clusters.request import ClusterResponse, Upgrade, request
from keyferry.errors import ClusterAuthError, Kind

try:
    from websockets.frames import Frame, Opcode
    from websockets.protocol import Protocol, Side, State
except ImportError as missing:
    raise missing_extra("on-node", missing) from None

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
# RBAC asked for the verb of the request, get, before Kubernetes 1.35, and asks for create as well since.
_VERBS = "create and get"
_ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SILENCE_SECONDS = 61.0
# A connection carries at most so many bytes beside what the command may write.
_OVERHEAD_BYTES = 1 << 20
_MAX_STATUS_BYTES = 1 << 16
_SERVER_ERROR = 500


class _Channel(IntEnum):
    """The first byte of a frame: what the rest of it is."""

    STDOUT = 1
    STDERR = 2
    STATUS = 3
    CLOSE = 255  # version 5 only: the rest is the channel that ends


class ExecTarget(Value):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


class ExecLimits(Value):
    """What a command may write, in how many frames, and how long it may take with the connection to it.

    The server may take *close_seconds* to close the connection after it told how the command ended. After each
    *ping_seconds* of silence it gets a ping.
    """

    stdout_bytes: int = 1 << 22
    stderr_bytes: int = 1 << 16
    frames: int = 100_000
    seconds: float = 60.0
    close_seconds: float = 5.0
    ping_seconds: float = 5.0


class ExecResult(Value):
    """What a command wrote, and its exit code."""

    exit_code: int
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)


def exec_in_pod(
    session: ClusterAccess,
    target: ExecTarget,
    command: tuple[str, ...],
    limits: ExecLimits = ExecLimits(),
) -> ExecResult | ApiProblem:
    """Run *command* in a container and return its result, or the problem that the server reports.

    Nothing is sent to the command's standard input. Raise ClusterAuthError if the server cannot be reached, if it does
    not end in time, or if what it sends breaks the protocol or the *limits*.
    """
    deadline = Deadline(limits.seconds)
    action = ApiAction(verb=_VERBS, resource="pods/exec", namespace=target.namespace, name=target.pod)
    key = b64encode(urandom(16)).decode()
    headers = (
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", key),
        ("Sec-WebSocket-Protocol", f"{V5}, {V4}"),
    )
    upgrade = Upgrade(protocol="websocket", headers=headers)
    path = _path(target, command)
    with request(session, path, timeout_seconds=deadline.seconds_left, upgrade=upgrade) as reply:
        if not reply.is_switched:
            return problem_of(action, reply)
        version = _check_handshake(session, reply, key)
        received = _Received(session, limits, version)
        _Conversation(session, reply.switch(), deadline, limits).run(received.take)
    return received.result(action)


def _path(target: ExecTarget, command: tuple[str, ...]) -> str:
    place = f"/api/v1/namespaces/{encode_percent(target.namespace)}/pods/{encode_percent(target.pod)}/exec"
    words = (("command", word) for word in command)
    query = encode_query((("container", target.container), ("stdout", "true"), ("stderr", "true"), *words))
    return f"{place}?{query}"


def _check_handshake(session: ClusterAccess, reply: ClusterResponse, key: str) -> str:
    """Return the version of the protocol that the server chose; raise ClusterAuthError for another protocol."""
    digest = sha1(key.encode() + _ACCEPT_SUFFIX, usedforsecurity=False).digest()
    version = reply.header("sec-websocket-protocol")
    is_websocket = (
        reply.header("upgrade").lower() == "websocket"
        and reply.header("sec-websocket-accept") == b64encode(digest).decode()
        and not reply.header("sec-websocket-extensions")
    )
    if not is_websocket:
        raise _broken(session, "its response is not a WebSocket's")
    if version not in (V5, V4):
        raise _broken(session, f"it speaks neither {V5} nor {V4}")
    return version


def _broken(session: ClusterAccess, why: str) -> ClusterAuthError:
    return ClusterAuthError(
        session.server, f"the connection to the pod is given up: {why}", kind=Kind.CONTENT
    )


class _Received:
    """What has arrived on each channel."""

    def __init__(self, session: ClusterAccess, limits: ExecLimits, version: str) -> None:
        self._session = session
        self._version = version
        self._most = {
            _Channel.STDOUT: limits.stdout_bytes,
            _Channel.STDERR: limits.stderr_bytes,
            _Channel.STATUS: _MAX_STATUS_BYTES,
        }
        self._content = {channel: bytearray() for channel in self._most}

    def take(self, message: bytes) -> bool:
        """Take one message; return whether the server has told how the command ended."""
        if not message:
            raise _broken(self._session, "a frame has no channel")
        number, data = message[0], message[1:]
        if number == _Channel.CLOSE and self._version == V5:
            return False
        if number not in self._most:
            raise _broken(self._session, f"a frame has channel {number}, expected 1, 2 or 3")
        channel = _Channel(number)
        content = self._content[channel]
        content += data
        if len(content) > self._most[channel]:
            name = channel.name.lower()
            raise _broken(self._session, f"{name} is longer than {self._most[channel]} bytes")
        return channel is _Channel.STATUS and read_object(bytes(content)) is not None

    def result(self, action: ApiAction) -> ExecResult | ApiProblem:
        """Return the result by the Status that the server sent at the end."""
        status = read_object(bytes(self._content[_Channel.STATUS]))
        if status is None:
            raise _broken(self._session, "it ended without telling how the command ended")
        code = _exit_code(status)
        if code is None:
            return _problem(action, status)
        stdout, stderr = (bytes(self._content[each]) for each in (_Channel.STDOUT, _Channel.STDERR))
        return ExecResult(exit_code=code, stdout=stdout, stderr=stderr)


def _exit_code(status: Json) -> int | None:
    """Return the exit code in a Status; None if the command was not run."""
    if status.get("status") == "Success":
        return 0
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    if status.get("reason") != "NonZeroExitCode" or not isinstance(causes, list):
        return None
    for cause in causes:
        text = cause.get("message") if isinstance(cause, dict) and cause.get("reason") == "ExitCode" else None
        if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 4:
            return int(text)
    return None


def _problem(action: ApiAction, status: Json) -> ApiProblem:
    """Return why the command was not run."""
    code = status.get("code")
    number = code if isinstance(code, int) and 400 <= code < 600 else _SERVER_ERROR
    return read_status(action, number, status)


class _Conversation:
    """The messages of one connection, and pings while nothing arrives."""

    def __init__(
        self, session: ClusterAccess, tunnel: Tunnel, deadline: Deadline, limits: ExecLimits
    ) -> None:
        self._session = session
        self._tunnel = tunnel
        self._deadline = deadline
        longest = max(limits.stdout_bytes, limits.stderr_bytes, _MAX_STATUS_BYTES) + 1
        # It would show what the frames hold.
        mute = Logger("frames", CRITICAL)  # noqa: LOG001 - getLogger returns one that can be turned on
        self._protocol = Protocol(Side.CLIENT, max_size=longest, logger=mute)
        self._bytes_left = limits.stdout_bytes + limits.stderr_bytes + _OVERHEAD_BYTES
        self._frames_left = limits.frames
        self._close_seconds, self._ping_seconds = limits.close_seconds, limits.ping_seconds
        self._message = bytearray()

    def run(self, take: Callable[[bytes], bool]) -> None:
        """Give each message to *take* until the connection ends, or shortly after *take* returned True."""
        deadline, is_told = self._deadline, False
        heard = monotonic()
        while deadline.seconds_left > 0 and monotonic() - heard < _SILENCE_SECONDS:
            data = self._tunnel.receive(min(self._ping_seconds, deadline.seconds_left))
            if data is None:
                self._protocol.send_ping(b"")
                self._send()
                continue
            heard = monotonic()
            for message in self._messages(data):
                if take(message) and not is_told:
                    # What still arrives was written before; the server closes the connection then.
                    is_told, deadline = True, deadline.within(self._close_seconds)
            if self._protocol.state is not State.OPEN:
                return
            self._send()
        if not is_told:
            text = "the command in the pod did not end in time"
            raise ClusterAuthError(self._session.server, text, kind=Kind.TIMEOUT)

    def _messages(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that *data* completes; raise ClusterAuthError for what no API server sends."""
        self._bytes_left -= len(data)
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        for frame in self._protocol.events_received():
            self._frames_left -= 1
            if not isinstance(frame, Frame) or frame.opcode is Opcode.TEXT:
                raise _broken(self._session, "it sends text, expected bytes")
            if frame.opcode in (Opcode.BINARY, Opcode.CONT):
                self._message += frame.data
                if frame.fin:
                    message, self._message = bytes(self._message), bytearray()
                    yield message
        if self._bytes_left < 0 or self._frames_left < 0:
            raise _broken(self._session, "it sends more than a command may write")
        wrong = self._protocol.parser_exc
        if wrong is not None and not isinstance(wrong, EOFError):
            raise _broken(self._session, "a frame is too long, or not one of a WebSocket")

    def _send(self) -> None:
        for data in filter(None, self._protocol.data_to_send()):
            self._tunnel.send(data, max(self._deadline.seconds_left, 0.001))
