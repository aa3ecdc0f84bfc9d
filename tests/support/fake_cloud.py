"""Fakes of a cloud's endpoints: real HTTP and TLS servers on loopback that record and check their requests."""

from __future__ import annotations

import base64
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from . import certificates

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Received:
    """One request as received."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    target: str

    @property
    def form(self) -> dict[str, str]:
        """The body as a form."""
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=bool(self.body)))

    @property
    def json(self) -> dict[str, object]:
        """The body as a JSON object."""
        loaded = json.loads(self.body)
        assert isinstance(loaded, dict)
        return loaded


@dataclass(frozen=True)
class Reply:
    """A response: a document as JSON, or raw bytes; *after* a delay in seconds; or no response.

    *raw* is sent instead of the whole response, head included. With *is_endless* the body never ends.
    """

    status: int = 200
    document: object = None
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    after: float = 0.0
    raw: bytes | None = None
    is_closed: bool = False
    is_endless: bool = False

    @property
    def payload(self) -> bytes:
        """The bytes of the body."""
        return self.body if self.document is None else json.dumps(self.document).encode()


Handler = Callable[[Received], Reply]


def segment(data: bytes) -> str:
    """Return base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Authority:
    """A certificate authority with its files; its bundle is meant for SSL_CERT_FILE."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._signer = certificates.Authority()
        self.bundle = folder / "authority.pem"
        self.bundle.write_text(self._signer.pem)

    def context(self, *names: str, common_name: str = "server") -> ssl.SSLContext:
        """Return the server's TLS context, with a certificate for *names*."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate(*names, common_name=common_name))
        return context

    def certificate(self, *names: str, common_name: str = "server") -> Path:
        """Write a key and a certificate, for *names* or of the old kind, for a server program; return the path."""
        pair = self._signer.server(*names) if names else self._signer.server_called(common_name)
        path = self._folder / f"server-{pair.serial}.pem"
        path.write_text(pair.key + pair.certificate)
        return path


class FakeServer:
    """A server that answers by a function of the request, and records every request."""

    def __init__(
        self, handler: Handler, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.received: list[Received] = []
        self.problems: list[str] = []
        self._handler = handler
        self._host = host
        server_class = _Server6 if ":" in host else _Server
        self._server = server_class((host, 0), _handler_class(self))
        self._context = context
        if context is not None:
            # The handshake happens in the request's own thread: one slow client does not hold up the others.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """Scheme, address and port."""
        return f"{'https' if self._context else 'http'}://{self._host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, received: Received) -> Reply:
        """Record a request and answer it; a check that fails in the function gives status 599."""
        self.received.append(received)
        try:
            return self._handler(received)
        except AssertionError as error:
            self.problems.append(f"{received.method} {received.target}: {error}")
            return Reply(599, body=b"the test's server did not expect this request")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that end a connection early: some tests do this."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler_class(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE_SECONDS

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            reply = fake.answer(Received(self.command, parts.path, query, headers, body, self.path))
            if reply.after:
                time.sleep(reply.after)
            self.close_connection = True
            if reply.raw is not None:
                self.wfile.write(reply.raw)
            elif not reply.is_closed:
                self._send(reply)

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if not reply.is_endless:
                self.send_header("Content-Length", str(len(reply.payload)))
            self.end_headers()
            self.wfile.write(reply.payload)
            until = time.monotonic() + PATIENCE_SECONDS
            while reply.is_endless and time.monotonic() < until:
                self.wfile.write(b"x" * 65536)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _serve  # noqa: N815 - names of the base

    return Handler


class ConnectProxy:
    """An HTTP proxy that forwards CONNECT and plain requests for known names to ports on loopback."""

    def __init__(self, ways: Mapping[str, int]) -> None:
        self.asked: list[str] = []
        self._ways = dict(ways)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        """The value for HTTPS_PROXY."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A close alone would not wake up the thread that accepts.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                head = _read_head(client)
                method, target, *_ = head.decode("latin-1").split(" ", 2)
                place = target if method == "CONNECT" else target.removeprefix("http://").partition("/")[0]
                self.asked.append(place)
                port = self._ways.get(place, self._ways.get(place.partition(":")[0]))
                if port is None:
                    client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                    return
                with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as server:
                    if method == "CONNECT":
                        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    else:
                        server.sendall(head.replace(f"http://{place}".encode(), b"", 1))
                    _pump(client, server)
            except OSError:
                return


def _read_head(client: socket.socket) -> bytes:
    client.settimeout(PATIENCE_SECONDS)
    head = b""
    while b"\r\n\r\n" not in head:
        data = client.recv(65536)
        if not data:
            raise OSError("the client is gone")
        head += data
    return head


def _pump(one: socket.socket, other: socket.socket) -> None:
    ends = {one: other, other: one}
    while True:
        readable, _, _ = select.select([*ends], [], [], PATIENCE_SECONDS)
        if not readable:
            return
        for end in readable:
            data = end.recv(65536)
            if not data:
                return
            ends[end].sendall(data)


@contextmanager
def serving(
    handler: Handler, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[FakeServer]:
    """Yield a server for the length of a block; an unexpected request fails the test at the end."""
    with FakeServer(handler, context, host) as server:
        yield server
    assert not server.problems, "\n".join(server.problems)
