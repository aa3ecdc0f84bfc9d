"""A strict server of the node agent's protocol on a real socket: it checks what it is sent, and answers as told."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.plugins import API_VERSION
from support.unix_sockets import bind

PROTOCOL = "agent.keyferry.dev/v1"
MAX_BYTES = 256 << 10
KNOWN = {
    *("apiVersion", "kind", "image", "registry", "provider"),
    *("serviceAccountToken", "serviceAccountAnnotations", "serviceAccount"),
    *("configHash", "binDir"),
}
Request = dict[str, object]
# What to send: a document with status 200, a status with a document, bytes, in pieces or not, or None for silence.
Answer = Mapping[str, object] | tuple[int, Mapping[str, object]] | bytes | list[bytes] | None


def http(document: Mapping[str, object], status: int = 200) -> bytes:
    """Return a document as an HTTP answer."""
    body = json.dumps(document).encode()
    return (
        f"HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


def response(
    password: str = "secret", api_version: str = API_VERSION, host: str = "registry.example"
) -> dict[str, object]:
    """Return a plugin's response as the agent gives it."""
    return {
        "kind": "CredentialProviderResponse",
        "apiVersion": api_version,
        "cacheKeyType": "Registry",
        "cacheDuration": "0s",
        "auth": {host: {"username": "agent", "password": password}},
    }


def answered(password: str = "secret", api_version: str = API_VERSION) -> dict[str, object]:
    """Return the agent's answer for one provider."""
    return {
        "apiVersion": PROTOCOL,
        "kind": "ProviderResponse",
        "outcome": "answered",
        "source": "cache",
        "response": response(password, api_version),
    }


def refusal(reason: str) -> dict[str, object]:
    """Return the body of a refusal."""
    return {"apiVersion": PROTOCOL, "kind": "Status", "reason": reason, "message": "no"}


class AgentServer:
    """The server: the requests that it got, and everything that was wrong with them."""

    def __init__(self, path: Path, answer: Callable[[Request], Answer]) -> None:
        self.path = path
        self.requests: list[Request] = []
        self.problems: list[str] = []
        # What clients may ask for, by path: the kind of the document and its fields.
        self.known = {"/v1/lookup": ("LookupRequest", KNOWN)}
        self.stopping = threading.Event()
        self._answer = answer

    def serve(self, connection: socket.socket) -> None:
        """Read one request, check it, and answer."""
        with connection:
            connection.settimeout(20)
            try:
                request = self._read(connection)
                if request is None:
                    return
                self.requests.append(request)
                self._send(connection, self._answer(request))
            except OSError:
                pass  # the client has gone

    def _read(self, connection: socket.socket) -> Request | None:
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return None  # nothing was sent, or not all
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(fields.get("content-length", "-1"))
        while len(body) < size:
            body += connection.recv(65536)
        self._check(first, fields, len(lines), body, size)
        document = json.loads(body)
        self._check_document(document, first.split()[1])
        return dict(document)

    def _check(self, first: str, fields: Mapping[str, str], lines: int, body: bytes, size: int) -> None:
        wanted = {
            "host": "keyferry-agent",
            "connection": "close",
            "content-type": "application/json",
            "content-length": str(len(body)),
        }
        if (
            first not in {f"POST {path} HTTP/1.1" for path in self.known}
            or fields != wanted
            or lines != len(wanted)
        ):
            self.problems.append(f"{first} {fields}")
        if len(body) != size or size > MAX_BYTES:
            self.problems.append(f"{len(body)} bytes of {size}")

    def _check_document(self, document: Mapping[str, object], path: str) -> None:
        kind, known = self.known.get(path, ("", set()))
        if document.get("apiVersion") != PROTOCOL or document.get("kind") != kind:
            self.problems.append(f"not a {kind}")
        if set(document) - known or not isinstance(document.get("image", document.get("registry")), str):
            self.problems.append(f"fields {sorted(document)}")

    def _send(self, connection: socket.socket, answer: Answer) -> None:
        if answer is None:
            self.stopping.wait(60)
        elif isinstance(answer, bytes):
            connection.sendall(answer)
        elif isinstance(answer, list):
            for piece in answer:
                connection.sendall(piece)
                time.sleep(0.001)
        elif isinstance(answer, tuple):
            connection.sendall(http(answer[1], answer[0]))
        else:
            connection.sendall(http(answer))


@contextmanager
def serving(path: Path, answer: Callable[[Request], Answer]) -> Iterator[AgentServer]:
    """Serve on a socket in a folder of its own, for the length of a block; fail if a request was wrong."""
    server = AgentServer(path, answer)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o750)
    with bound(path) as listener:
        threads: list[threading.Thread] = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=server.serve, args=(connection,)))
                threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield server
        finally:
            server.stopping.set()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()
            path.unlink()
    assert server.problems == []


@contextmanager
def bound(path: Path, backlog: int = 128) -> Iterator[socket.socket]:
    """Yield a listening socket whose path may be of any length."""
    with socket.socket(socket.AF_UNIX) as listener:
        bind(listener, path)
        listener.listen(backlog)
        yield listener


@contextmanager
def telling(path: Path, document: Mapping[str, object], status: int = 200) -> Iterator[str]:
    """Answer whatever is asked at *path* with one document."""
    path.parent.mkdir(exist_ok=True)
    path.parent.chmod(0o755)

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(http(document, status))

    with bound(path) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        try:
            yield str(path)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            serving.join()
