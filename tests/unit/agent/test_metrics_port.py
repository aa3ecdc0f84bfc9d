"""The port has three pages that are only read, for everybody who connects, and nothing else."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection

import pytest

from keyferry._net.listen_address import parse_listen_address
from keyferry.agent.message import AgentReply, AgentRequest
from keyferry.agent.metrics_port import MetricsPort
from keyferry.errors import EnvironmentProblem
from support.agents import Reply
from support.plugins import wait_until

FIGURES = b"keyferry_build_info 1\n"


class _Figures:
    """Counts how often figures are made."""

    def __init__(self, text: bytes = FIGURES) -> None:
        self.made = 0
        self._text = text

    def __call__(self) -> AgentReply:
        self.made += 1
        return AgentReply(status=200, body=self._text, content_type=b"text/plain; version=0.0.4")


def ask(address: str, method: str, target: str, host: str | None = None) -> Reply:
    place, _, port = address.rpartition(":")
    connection = HTTPConnection(place.strip("[]"), int(port), timeout=20)
    try:
        connection.request(method, target, headers={} if host is None else {"Host": host})
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def served(
    questions: Callable[[str], list[Reply]],
    *,
    figures: _Figures | None = None,
    is_stopping: bool = False,
    at: str = "127.0.0.1:0",
) -> list[Reply]:
    """Serve a port while another thread asks its questions."""

    async def run() -> list[Reply]:
        port = MetricsPort(at, figures or _Figures(), lambda: is_stopping)
        await port.serve()
        try:
            return await asyncio.to_thread(questions, port.address)
        finally:
            port.close()

    return asyncio.run(run())


def test_figures_and_health_are_there() -> None:
    paths = ("/metrics", "/healthz", "/readyz")
    replies = served(lambda at: [ask(at, "GET", path) for path in paths])
    assert [(reply.status, reply.body) for reply in replies] == [
        (200, FIGURES),
        (200, b"ok\n"),
        (200, b"ok\n"),
    ]
    assert all("Set-Cookie" not in reply.headers for reply in replies)


def test_head_has_the_length_and_no_body() -> None:
    """On one connection with another request, which is understood."""

    def questions(at: str) -> list[Reply]:
        host, _, port = at.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            head = f"host: {at}\r\n"
            client.sendall(f"HEAD /metrics HTTP/1.1\r\n{head}\r\n".encode())
            client.sendall(f"GET /healthz HTTP/1.1\r\n{head}connection: close\r\n\r\n".encode())
            data = b""
            while piece := client.recv(65536):
                data += piece
        return [Reply(0, {}, data)]

    [whole] = served(questions)
    first, second, body = whole.body.split(b"\r\n\r\n")
    assert b"content-length: %d" % len(FIGURES) in first
    assert second.startswith(b"HTTP/1.1 200 OK")
    assert body == b"ok\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(method: str) -> None:
    replies = served(lambda at: [ask(at, method, path) for path in ("/metrics", "/healthz", "/readyz")])
    assert {reply.status for reply in replies} == {405}


@pytest.mark.parametrize(
    "path", ["/", "/v1/status", "/v1/lookup", "/v1/reload", "/metrics/", "//metrics", "/page"]
)
def test_nothing_else_is_there(path: str) -> None:
    """What the socket serves is for users whom the kernel names."""
    replies = served(lambda at: [ask(at, method, path) for method in ("GET", "POST")])
    assert [reply.status for reply in replies] == [404, 404]


def test_readiness_ends_when_the_agent_stops_and_health_does_not() -> None:
    replies = served(lambda at: [ask(at, "GET", path) for path in ("/readyz", "/healthz")], is_stopping=True)
    assert [reply.status for reply in replies] == [503, 200]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1", 200), ("[::1]:9750", 200)),
        *(("evil.example", 421), ("evil.example:9750", 421), ("localhost.evil.example", 421), ("", 421)),
    ],
)
def test_on_loopback_a_name_of_somebodys_domain_is_refused(host: str, status: int) -> None:
    """A web page whose name leads to 127.0.0.1 would read it otherwise."""
    [reply] = served(lambda at: [ask(at, "GET", "/metrics", host)])
    assert reply.status == status


def test_elsewhere_any_name_will_do() -> None:
    """Prometheus names a node as its config does."""

    def question(at: str) -> list[Reply]:
        return [ask(f"127.0.0.1:{at.rpartition(':')[2]}", "GET", "/metrics", "node-1.example:9750")]

    assert [reply.status for reply in served(question, at="0.0.0.0:0")] == [200]


def test_figures_are_not_made_for_every_request_of_a_flood() -> None:
    figures = _Figures()
    replies = served(lambda at: [ask(at, "GET", "/metrics") for _ in range(20)], figures=figures)
    assert len(replies) == 20
    assert figures.made < 20


def test_silent_clients_do_not_shut_out_others() -> None:
    def questions(at: str) -> list[Reply]:
        host, _, port = at.rpartition(":")
        silent = [socket.create_connection((host, int(port)), timeout=20) for _ in range(200)]
        try:
            return [ask(at, "GET", "/healthz")]
        finally:
            for each in silent:
                each.close()

    assert [reply.status for reply in served(questions)] == [200]


def test_clients_that_do_not_read_their_replies_do_not_shut_out_others() -> None:
    def questions(at: str) -> list[Reply]:
        host, _, port = at.rpartition(":")
        deaf = [socket.socket() for _ in range(64)]
        try:
            for each in deaf:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                each.connect((host, int(port)))
                each.settimeout(0.01)
            for each in deaf:
                with suppress(OSError):
                    each.sendall(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 50)
            # Each has a reply to read, or had to give way.
            wait_until(lambda: len(select.select(deaf, [], [], 0)[0]) == len(deaf), "the replies")
            return [ask(at, "GET", "/healthz") for _ in range(5)]
        finally:
            for each in deaf:
                each.close()

    figures = _Figures(b"x" * 1_000_000)
    assert [reply.status for reply in served(questions, figures=figures)] == [200] * 5


def test_a_client_that_leaves_has_one_request_answered_of_all_that_it_sent() -> None:
    answered: list[bytes] = []

    class Counted(MetricsPort):
        def answer(self, request: AgentRequest, host: bytes) -> AgentReply:
            answered.append(request.path)
            return super().answer(request, host)

    async def run() -> None:
        port = Counted("127.0.0.1:0", _Figures(), lambda: False)
        await port.serve()
        host, _, number = port.address.rpartition(":")
        with socket.create_connection((host, int(number))) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 1_000)
        await asyncio.sleep(0.2)
        port.close()

    asyncio.run(run())
    # TCP tells of the end with the second reply.
    assert 1 <= len(answered) <= 3


@pytest.mark.parametrize("head", [b"content-length: 1", b"transfer-encoding: chunked"])
def test_no_body_is_read(head: bytes) -> None:
    def questions(at: str) -> list[Reply]:
        host, _, port = at.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n%b\r\n\r\n1\r\n" % head)
            return [Reply(int(client.recv(65536).split()[1]), {}, b"")]

    assert [reply.status for reply in served(questions)] == [413]


def test_a_head_without_end_is_refused() -> None:
    def questions(at: str) -> list[Reply]:
        return [ask(at, "GET", "/metrics?" + "x" * 20_000)]

    assert [reply.status for reply in served(questions)] == [431]


def test_an_agent_and_its_successor_listen_at_one_port_and_the_later_one_stays() -> None:
    """So that an upgrade in the node's own network has no gap; one that is no successor is refused."""

    async def run() -> list[Reply]:
        old = MetricsPort("127.0.0.1:0", _Figures(), lambda: True)
        await old.serve()
        address = parse_listen_address(old.address)
        with pytest.raises(EnvironmentProblem, match="address already in use"):
            MetricsPort(old.address, _Figures(), lambda: False)
        new = MetricsPort(old.address, _Figures(), lambda: False, [address] if address else [])
        await new.serve()
        old.stop_listening()
        try:
            replies = [await asyncio.to_thread(ask, new.address, "GET", "/readyz") for _ in range(20)]
        finally:
            old.close()
            new.close()
        return replies

    assert {reply.status for reply in asyncio.run(run())} == {200}


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EnvironmentProblem, match=f"cannot listen at {address}: address already in use"):
            MetricsPort(address, _Figures(), lambda: False)
