"""Connections to registries that are kept between requests, against a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from keyferry._net.deadline import Deadline
from keyferry._net.http_errors import split_url
from keyferry._net.proxy import Origin
from keyferry.errors import Kind, RegistryError
from keyferry.pulls.registry.transport import RegistryRoute, Transport


class KeepingServer(ThreadingHTTPServer):
    """A server that keeps connections; it notes them, and what was asked on each."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def origin(self) -> Origin:
        """Where it is."""
        return split_url(f"http://127.0.0.1:{self.server_port}/x")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KeepingServer

    def do_GET(self) -> None:
        self.server.asked.append((self.client_address[1], self.headers.get("Authorization", "")))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[KeepingServer]:
    with KeepingServer() as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _plain_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)


def refuse(address: str) -> None:
    """Say no, as for a place that an answer led to and that may not be asked."""
    raise RegistryError("registry.example", 0, f"leads to {address}", Kind.UNSAFE)


def test_a_kept_connection_is_judged_anew(server: KeepingServer) -> None:
    """That a host may be asked for one thing does not mean that a redirect may lead there: nothing is sent."""
    transport = Transport(RegistryRoute(), Deadline(20))
    with transport.request(server.origin, "GET", {}, admit=lambda _: None) as answer:
        assert answer.read(10) == b"ok"
    with pytest.raises(RegistryError, match=r"leads to 127\.0\.0\.1"):
        transport.request(server.origin, "GET", {"Authorization": "Bearer secret"}, admit=refuse)
    transport.close()
    assert [proof for _, proof in server.asked] == [""]


def test_a_kept_connection_is_used_again(server: KeepingServer) -> None:
    """One connection serves one request after the other, and each asks leave for its address."""
    judged: list[str] = []
    transport = Transport(RegistryRoute(), Deadline(20))
    for _ in range(3):
        with transport.request(server.origin, "GET", {}, admit=judged.append) as answer:
            answer.read(10)
    transport.close()
    assert len(server.asked) == 3
    assert len({port for port, _ in server.asked}) == 1
    # Twice for the first: also before it was dialled.
    assert judged == ["127.0.0.1"] * 4
