"""An API server for tests: real TLS on loopback, in threads, which identifies the user and the connection.

A test sets which tokens, logins and client certificates it accepts, and which
statuses it returns instead. The requests are in ``seen``, in order.
"""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import socket
import socketserver
import ssl
import threading
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from itertools import count
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from keyferry.clusters.tls import load_pair

from .certificates import Authority, Pair

LOOPBACK = "127.0.0.1"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as received, and the status of its response."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int
    serial: int | None
    status: int

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def authorization(self) -> str:
        """The Authorization header; empty if there was none."""
        return ", ".join(self.all("Authorization"))

    @property
    def token(self) -> str:
        """The bearer token; empty if there was none."""
        return self.authorization.removeprefix("Bearer ") if "Bearer " in self.authorization else ""


class ApiServer(socketserver.ThreadingTCPServer):
    """A server that accepts ``tokens``, ``logins`` or ``serials``; with ``needs_both``, a token and a serial.

    ``script`` holds the statuses of the next requests, whatever they contain, and ``always`` one for all of them.
    Paths: ``/watch`` streams the lines of ``push`` until ``end_watch``; ``/redirect`` redirects to
    ``redirect_to``; ``/status/500`` and the like return that status; ``/truncated`` ends in the middle of its body,
    ``/drop`` before it. All other paths return the request.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, authority: Authority, *names: str, pair: Pair | None = None) -> None:
        pair = pair or authority.server(*(names or (LOOPBACK,)))
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.verify_mode = ssl.CERT_OPTIONAL
        self.tls.load_verify_locations(cadata=authority.pem)
        load_pair(self.tls, pair.certificate, pair.key)
        self.tokens: set[str] = set()
        self.logins: set[str] = set()
        self.serials: set[int] = set()
        self.needs_both = False
        self.script: deque[int] = deque()
        self.always = 0
        self.redirect_to = ""
        self.seen: list[Seen] = []
        self.handshakes = count(1)
        self.open: dict[int, socket.socket] = {}
        self.lock = threading.Lock()
        self.lines: queue.Queue[str | None] = queue.Queue()
        super().__init__((LOOPBACK, 0), _Handler)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The URL of the server, by address."""
        return f"https://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self.server_close()
        self.end_watch()
        self.drop_connections()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect or refuse the server: they are part of the tests."""

    def push(self, line: str) -> None:
        """Send a line to the watch."""
        self.lines.put(line)

    def end_watch(self) -> None:
        """End the watch."""
        self.lines.put(None)

    def drop_connections(self) -> None:
        """Cut every open connection, as a load balancer does."""
        with self.lock:
            connections = list(self.open.values())
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def connections(self) -> list[int]:
        """Return the connection of each request seen."""
        return [seen.connection for seen in self.seen]

    def decide(self, seen: Seen) -> int:
        """Return the status for a request."""
        with self.lock:
            if self.script:
                return self.script.popleft()
        return self.always or (200 if self.lets_in(seen) else 401)

    def lets_in(self, seen: Seen) -> bool:
        """Return whether the sender of a request is accepted."""
        by_token, by_serial = seen.token in self.tokens, seen.serial in self.serials
        if self.needs_both:
            return by_token and by_serial
        return by_token or by_serial or self._login(seen) in self.logins

    def respond(self, seen: Seen) -> tuple[int, bytes] | None:
        """Return the status and body of a response that this server gives itself; None for the ones above."""
        return None

    def switch(self, seen: Seen, connection: socket.socket) -> None:
        """Answer a request that ``respond`` has accepted with 101, and speak the other protocol to its end."""

    @staticmethod
    def _login(seen: Seen) -> str:
        kind, _, value = seen.authorization.partition(" ")
        return base64.b64decode(value).decode() if kind == "Basic" else ""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: ApiServer
    disable_nagle_algorithm = True
    own: bytes | None = None

    def setup(self) -> None:
        self.request.settimeout(30)
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        peer = self.request.getpeercert()
        self.serial = int(peer["serialNumber"], 16) if peer else None
        with self.server.lock:
            self.number = next(self.server.handshakes)
            self.server.open[self.number] = self.request
        super().setup()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        with self.server.lock:
            del self.server.open[self.number]
        self.request.close()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        seen = self._take(path)
        if seen.status == 101:
            self.close_connection = True
            self.server.switch(seen, self.request)
        elif self.own is not None:
            self._answer(seen.status, self.own)
        elif seen.status == 200 and path == "/watch":
            self._watch()
        elif seen.status == 200 and path == "/truncated":
            self._answer(200, b"some of it", length=1000)
            self.close_connection = True
        elif path == "/drop":
            self.close_connection = True
        else:
            self._answer(seen.status, _body(seen))

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        seen = self._take(path)
        body = _review(seen) if path == REVIEWS else seen.body
        self._answer(seen.status, body if self.own is None else self.own)

    do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - names of the standard library

    def _take(self, path: str) -> Seen:
        body = self._read_body()
        headers = tuple(self.headers.items())
        seen = Seen(self.command, self.path, headers, body, self.number, self.serial, 0)
        status = self.server.decide(seen)
        if status == 200 and path.startswith("/status/"):
            status = int(path.rpartition("/")[2])
        if status == 200 and path == "/redirect":
            status = 302
        own = self.server.respond(seen)
        self.own = None if own is None else own[1]
        status = status if own is None else own[0]
        seen = Seen(self.command, self.path, headers, body, self.number, self.serial, status)
        with self.server.lock:
            self.server.seen.append(seen)
        return seen

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.redirect_to)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while (line := self.server.lines.get(timeout=30)) is not None:
            data = line.encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")


def _body(seen: Seen) -> bytes:
    return json.dumps({"path": seen.path, "status": seen.status}).encode()


def _review(seen: Seen) -> bytes:
    user = f"certificate-{seen.serial}" if seen.serial is not None else f"token-{len(seen.token)}"
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {},
        "status": {"userInfo": {"username": user, "groups": ["system:authenticated"]}},
    }
    return json.dumps(review).encode()


class ConnectProxy(socketserver.ThreadingTCPServer):
    """A proxy that tunnels to every requested host and records its requests; with a *pair*, reached by TLS.

    Only the proxy knows names below ``.invalid``, which all refer to this machine.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, pair: Pair | None = None) -> None:
        self.told: list[str] = []
        self._tls: ssl.SSLContext | None = None
        if pair is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            load_pair(self._tls, pair.certificate, pair.key)
        super().__init__((LOOPBACK, 0), _Tunnel)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """The address as host and port."""
        return f"{LOOPBACK}:{self.port}"

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection, and start TLS on it if the proxy uses TLS."""
        request, address = super().get_request()
        return (self._tls.wrap_socket(request, server_side=True) if self._tls else request), address

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore tunnels that are cut."""


class _Tunnel(socketserver.StreamRequestHandler):
    server: ConnectProxy

    def handle(self) -> None:
        lines = []
        while line := self.rfile.readline().decode().strip():
            lines.append(line)
        self.server.told.append("\n".join(lines))
        host, _, port = lines[0].split()[1].rpartition(":")
        host = LOOPBACK if host.endswith(".invalid") else host
        with socket.create_connection((host, int(port))) as upstream:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            threading.Thread(target=_pump, args=(upstream, self.request), daemon=True).start()
            _pump(self.request, upstream)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def running_proxy(pair: Pair | None = None) -> Generator[ConnectProxy]:
    """Yield a proxy on loopback that runs for the length of a block."""
    with ConnectProxy(pair) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
