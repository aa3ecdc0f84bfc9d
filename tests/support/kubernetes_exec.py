"""Exec into pods of the API server for tests: the checks of the real server, and frames over a WebSocket.

What runs in a container is a function of the test, which may run a real process. A test may also write the frames
itself, and see that the client closes the connection.
"""

from __future__ import annotations

import contextlib
import json
import queue
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from websockets.frames import Opcode
from websockets.protocol import Protocol, Side
from websockets.utils import accept_key

from .api_server import Seen

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDOUT, STDERR, STATUS, CLOSE = 1, 2, 3, 255
_PATH = re.compile("/api/v1/namespaces/([^/]+)/pods/([^/]+)/exec")
_CHUNK = 4096

Json = dict[str, object]


class ExecRefused(Exception):
    """An exec that is refused before the upgrade."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class Exec:
    """What a client asked to run."""

    namespace: str
    pod: str
    container: str
    command: tuple[str, ...]
    version: str


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command wrote, and its exit code; *status* replaces the Status that tells it."""

    code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    status: Json | None = None


class ExecSocket:
    """The server's end of one WebSocket."""

    def __init__(self, connection: socket.socket, asked: Exec) -> None:
        self.asked = asked
        self.connection = connection
        self.protocol = Protocol(Side.SERVER, max_size=1 << 20)

    def send(self, channel: int, data: bytes = b"") -> None:
        """Send a frame on a channel."""
        self.protocol.send_binary(bytes((channel,)) + data)
        self.flush()

    def flush(self) -> None:
        """Send what the protocol has to send."""
        for data in filter(None, self.protocol.data_to_send()):
            self.connection.sendall(data)

    def receive(self) -> Iterator[Opcode]:
        """Yield the kind of each frame of the client, until it closes the connection."""
        while data := self.connection.recv(65536):
            self.protocol.receive_data(data)
            for frame in self.protocol.events_received():
                yield getattr(frame, "opcode")  # noqa: B009 - an event of a protocol without a handshake is a frame
            self.flush()

    def cut(self) -> None:
        """Cut the connection, without the end that WebSocket or TLS have."""
        socket.socket.shutdown(self.connection, socket.SHUT_RDWR)

    def finish(self, done: Finished) -> None:
        """Send what a command wrote and how it ended, as the real server does."""
        self.send(STDOUT)
        for channel, data in ((STDOUT, done.stdout), (STDERR, done.stderr)):
            for at in range(0, len(data), _CHUNK):
                self.send(channel, data[at : at + _CHUNK])
        self.send(STATUS, json.dumps(done.status or status_of(done.code)).encode())
        self.protocol.send_close(1000)
        self.flush()


def status_of(code: int) -> Json:
    """Return the Status for an exit code."""
    head: Json = {"metadata": {}, "status": "Failure" if code else "Success"}
    if not code:
        return head
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: exit status {code}"
    return {**head, "message": message, "reason": "NonZeroExitCode", "details": {"causes": causes}}


@dataclass
class ExecPoint:
    """Exec of all pods: ``run`` runs a command, and ``script`` writes the frames in its place.

    ``versions`` are those that the server speaks; *unreachable* is why it does not reach the kubelet. ``asked`` is what
    was run; ``closed`` gets one item for each connection that the client has closed.
    """

    run: Callable[[Exec], Finished] = lambda _: Finished()
    script: Callable[[ExecSocket], None] | None = None
    versions: Sequence[str] = (V5, V4)
    unreachable: str = ""
    break_handshake: Mapping[str, str] = field(default_factory=dict)
    asked: list[Exec] = field(default_factory=list)
    pings: int = 0
    closed: queue.Queue[str] = field(default_factory=queue.Queue)

    @staticmethod
    def place(path: str) -> tuple[str, str] | None:
        """Return the namespace and pod that a path is about; None if it is not that of an exec."""
        found = _PATH.fullmatch(urlsplit(path).path)
        return None if found is None else (unquote(found[1]), unquote(found[2]))

    def check(self, seen: Seen, containers: Sequence[str]) -> None:
        """Raise ExecRefused for a request that the real server refuses before the upgrade."""
        query = dict(parse_qsl(urlsplit(seen.path).query, strict_parsing=True))
        pod, container = (self.place(seen.path) or ("", ""))[1], query.get("container", "")
        if (
            seen.method != "GET"
            or "websocket" not in seen.all("Upgrade")
            or seen.all("Connection") != ["Upgrade"]
        ):
            raise ExecRefused(400, "Upgrade request required")
        if not any(query.get(name) == "true" for name in ("stdin", "stdout", "stderr")):
            raise ExecRefused(400, "you must specify at least 1 of stdin, stdout, stderr")
        if not container and len(containers) > 1:
            choice = f"[{' '.join(containers)}]"
            raise ExecRefused(
                400, f"a container name must be specified for pod {pod}, choose one of: {choice}"
            )
        if container and container not in containers:
            raise ExecRefused(400, f"container {container} is not valid for pod {pod}")
        if self.unreachable and self._version(seen) == V4:
            raise ExecRefused(500, f"error dialing backend: {self.unreachable}")

    def _version(self, seen: Seen) -> str:
        offered = [each.strip() for value in seen.all("Sec-WebSocket-Protocol") for each in value.split(",")]
        return next((each for each in offered if each in self.versions), "")

    def switch(self, seen: Seen, connection: socket.socket) -> None:
        """Answer the upgrade, and serve the WebSocket until the client closes it."""
        assert seen.all("Sec-WebSocket-Version") == ["13"]
        (key,) = seen.all("Sec-WebSocket-Key")
        version = self._version(seen)
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": accept_key(key),
            **({"Sec-WebSocket-Protocol": version} if version else {}),
            **self.break_handshake,
        }
        lines = ["HTTP/1.1 101 Switching Protocols", *(f"{name}: {value}" for name, value in headers.items())]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        query = parse_qsl(urlsplit(seen.path).query)
        command = tuple(value for name, value in query if name == "command")
        namespace, pod = self.place(seen.path) or ("", "")
        asked = Exec(namespace, pod, dict(query).get("container", ""), command, version)
        self.asked.append(asked)
        with contextlib.suppress(OSError):
            self._serve(ExecSocket(connection, asked))
        self.closed.put(pod)

    def _serve(self, client: ExecSocket) -> None:
        if self.script is not None:
            self.script(client)
        elif self.unreachable:
            message = f"error dialing backend: {self.unreachable}"
            status: Json = {"status": "Failure", "reason": "InternalError", "message": message, "code": 500}
            client.finish(Finished(status=status))
        else:
            client.finish(self.run(client.asked))
        for opcode in client.receive():
            self.pings += opcode is Opcode.PING
