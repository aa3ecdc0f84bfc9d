"""Connections that are closed are counted by why; resting between two requests is no fault."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from contextlib import suppress

import pytest

from keyferry.agent.access import Caller
from keyferry.agent.connection import (
    IDLE_SECONDS,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    STEP_SECONDS,
    AgentConnection,
    ConnectionTable,
)
from keyferry.agent.message import AgentReply, AgentRequest
from support.loops import in_loop

WHOLE = b"GET / HTTP/1.1\r\nhost: agent\r\n\r\n"


async def settle() -> None:
    """Let the loop go round many times, however busy the machine is."""
    for _ in range(20):
        await asyncio.sleep(0.001)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Served:
    """Connections of real sockets to one table, with a handler that answers when it is told to."""

    def __init__(self) -> None:
        self.clock = _Clock()
        self.table = ConnectionTable(8, self.clock)
        self.go_on = asyncio.Event()
        self.clients: list[socket.socket] = []
        self._closing: asyncio.Task[None] | None = None
        self.handled: list[bytes] = []
        self.may_ask = True

    async def connect(self) -> socket.socket:
        theirs, ours = socket.socketpair()
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(
            lambda: AgentConnection(self.table, self._handle, lambda _: self.may_ask), ours
        )
        self.clients.append(theirs)
        self._closing = self._closing or asyncio.create_task(self._close())
        return theirs

    async def _close(self) -> None:
        """Close all clients when the test is over, and its loop cancels what is left."""
        try:
            await asyncio.Event().wait()
        finally:
            for each in self.clients:
                each.close()
            await settle()

    async def ask(self, client: socket.socket, sent: bytes = WHOLE) -> bytes:
        client.sendall(sent)
        return await asyncio.get_running_loop().sock_recv(client, 65536)

    async def pass_time(self, seconds: float) -> None:
        await settle()
        self.clock.now += seconds
        self.table.sweep()
        await settle()

    async def read_all(self, client: socket.socket) -> bytes:
        """Read until the connection is closed."""
        found = b""
        while piece := await asyncio.get_running_loop().sock_recv(client, 65536):
            found += piece
        return found

    def _handle(self, request: AgentRequest) -> AgentReply | Awaitable[AgentReply]:
        self.handled.append(request.path)
        if request.path == b"/long":
            return AgentReply(status=200, body=b"x" * 1_000_000)
        if request.path == b"/echo":
            assert not request.traceparent
            return AgentReply(status=200, body=request.body)
        return self._later() if request.path == b"/later" else AgentReply(status=200, body=b"{}")

    async def _later(self) -> AgentReply:
        await self.go_on.wait()
        return AgentReply(status=200, body=b"later")


@pytest.fixture
def served() -> _Served:
    """A table of its own for the clients of a test."""
    return _Served()


@in_loop
async def test_a_silent_client_is_too_slow(served: _Served) -> None:
    await served.connect()
    await served.pass_time(STEP_SECONDS + 1)
    assert (served.table.too_slow, len(served.table)) == (1, 0)


@in_loop
async def test_a_client_that_rests_after_its_reply_is_closed_and_not_counted(served: _Served) -> None:
    await served.ask(await served.connect())
    await served.pass_time(IDLE_SECONDS + 1)
    assert (served.table.too_slow, served.table.malformed, len(served.table)) == (0, 0, 0)


@in_loop
async def test_a_reply_to_head_has_the_length_and_no_body(served: _Served) -> None:
    """So that the next reply on the connection is understood."""
    reply = await served.ask(await served.connect(), WHOLE.replace(b"GET", b"HEAD"))
    assert b"content-length: 2\r\n" in reply
    assert reply.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("first", [b"", WHOLE])
@pytest.mark.parametrize("sent", [b"\r\n", b"\n", b"G"])
@in_loop
async def test_empty_lines_do_not_lengthen_the_time_for_a_head(
    served: _Served, first: bytes, sent: bytes
) -> None:
    """It begins with the first byte after the last request, whatever that is."""
    client = await served.connect()
    if first:
        await served.ask(client)
    for piece in (sent, b"ET /" if sent == b"G" else sent, b"" if sent == b"G" else sent):
        client.sendall(piece)
        await served.pass_time(STEP_SECONDS * 0.4)
    assert len(served.table) == 0
    assert served.table.too_slow == 1


@in_loop
async def test_half_a_request_behind_a_whole_one_has_the_time_for_a_head(served: _Served) -> None:
    await served.ask(await served.connect(), WHOLE + b"GET /")
    await served.pass_time(STEP_SECONDS + 1)
    assert (served.table.too_slow, len(served.table)) == (1, 0)


@in_loop
async def test_a_client_between_two_requests_has_its_time_after_an_empty_line_of_the_last_one(
    served: _Served,
) -> None:
    """Some clients end a body with one."""
    client = await served.connect()
    for _ in range(3):
        await served.ask(client, WHOLE + b"\r\n")
        await served.pass_time(STEP_SECONDS + 1)
    assert len(served.table) == 1


@in_loop
async def test_the_client_that_is_silent_for_longest_gives_way(served: _Served) -> None:
    """Not the one that connected first: it may ask every second."""
    served.table.most = 4
    asking, silent = await served.connect(), await served.connect()
    for _ in range(2):
        assert await served.ask(asking)
        await served.connect()
    assert await served.ask(asking)
    assert await asyncio.get_running_loop().sock_recv(silent, 1) == b""
    # The first of the two others had to go for the last one.
    assert (len(served.table), served.table.refused) == (2, 2)


def test_users_whose_lookups_take_long_leave_a_place_for_the_next() -> None:
    """Each has no more places than are free after it; at the end, a silent one of anybody gives way."""
    table = ConnectionTable(8, _Clock())

    class Connection(AgentConnection):
        def __init__(self, uid: int, *, is_busy: bool) -> None:
            super().__init__(table, lambda _: AgentReply(status=200, body=b"{}"))
            self.caller, self.is_busy = Caller(uid=uid, gids=frozenset()), is_busy

        @property
        def is_silent(self) -> bool:
            return not self.is_busy

    def connect(uid: int, *, is_busy: bool) -> bool:
        return table.add(Connection(uid, is_busy=is_busy))

    assert [connect(1001, is_busy=True) for _ in range(6)] == [True] * 4 + [False] * 2
    assert [connect(1002, is_busy=True) for _ in range(4)] == [True] * 2 + [False] * 2
    assert connect(0, is_busy=True)
    assert connect(1003, is_busy=False)
    # All are taken now, and one is silent.
    assert connect(1004, is_busy=True)
    assert not connect(1005, is_busy=True)


@pytest.mark.parametrize("number", [1, 3])
@in_loop
async def test_a_client_that_sends_no_more_gets_its_replies(served: _Served, number: int) -> None:
    """All of them, in order, and then the end."""
    client = await served.connect()
    client.sendall(b"GET /later HTTP/1.1\r\n\r\n" + WHOLE * (number - 1))
    client.shutdown(socket.SHUT_WR)
    await settle()
    assert len(served.table) == 1
    served.go_on.set()
    found = await served.read_all(client)
    bodies = [each.partition(b"\r\n\r\n")[2] for each in found.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"later", *[b"{}"] * (number - 1)]


@in_loop
async def test_a_client_that_has_gone_keeps_no_place(served: _Served) -> None:
    """Its request goes on, since the answer is cached; one that sends no more and reads keeps its place."""
    client, reading = await served.connect(), await served.connect()
    for each in (client, reading):
        each.sendall(b"GET /later HTTP/1.1\r\n\r\n")
    await settle()
    reading.shutdown(socket.SHUT_WR)
    client.close()
    await served.pass_time(1)
    assert (len(served.table), served.table.too_slow) == (1, 0)
    served.go_on.set()
    await settle()


@in_loop
async def test_nothing_is_done_for_a_client_that_has_left(served: _Served) -> None:
    """Of all that it sent, one request is handled; the failed reply tells that nobody is there."""
    client = await served.connect()
    client.sendall(WHOLE * 500)
    client.close()
    await settle()
    assert (len(served.handled), len(served.table)) == (1, 0)


async def flood(client: socket.socket, request: bytes) -> int:
    """Send requests until the client is held up; return how many were sent."""
    sent = 0
    for _ in range(100):
        before = sent
        with suppress(BlockingIOError):
            while True:
                sent += client.send(request[sent % len(request) :])
        await settle()
        if sent == before:
            return sent // len(request)
    raise AssertionError("everything that a client sends is read")


@in_loop
async def test_requests_behind_one_wait_unread_for_its_reply(served: _Served) -> None:
    """And are then answered in order."""
    client = await served.connect()
    client.sendall(b"GET /later HTTP/1.1\r\n\r\n")
    number = await flood(client, b"GET /next HTTP/1.1\r\n\r\n")
    assert served.handled == [b"/later"]
    served.go_on.set()
    while len(served.handled) <= number:
        await asyncio.get_running_loop().sock_recv(client, 65536)
    assert served.handled == [b"/later", *[b"/next"] * number]


@in_loop
async def test_a_client_with_many_requests_gets_one_turn_for_one_turn_of_others(served: _Served) -> None:
    many, one = await served.connect(), await served.connect()
    many.sendall(b"GET /many HTTP/1.1\r\n\r\n" * 500)
    for _ in range(20):
        await served.ask(one, b"GET /one HTTP/1.1\r\n\r\n")
    # A few turns pass from a request to the next one of the same client.
    assert served.handled.count(b"/many") < 200


@pytest.mark.parametrize("cut", [0, 1, 20, 27])
@in_loop
async def test_half_a_request_behind_a_whole_one_is_read_to_its_end(served: _Served, cut: int) -> None:
    """Wherever it is cut, the end of its head included."""
    client = await served.connect()
    assert (await served.ask(client, WHOLE + WHOLE[:cut])).startswith(b"HTTP/1.1 200 ")
    await settle()
    assert (await served.ask(client, WHOLE[cut:])).startswith(b"HTTP/1.1 200 ")


@in_loop
async def test_a_client_that_does_not_read_its_reply_is_silent_and_gives_way(served: _Served) -> None:
    """Not one that waits for a reply."""
    served.table.most = 4
    waiting, deaf = await served.connect(), await served.connect()
    waiting.sendall(b"GET /later HTTP/1.1\r\n\r\n")
    deaf.sendall(b"GET /long HTTP/1.1\r\n\r\n" * 100)
    await settle()
    assert await served.ask(await served.connect())
    assert (len(served.table), served.table.refused, served.handled.count(b"/long")) == (2, 1, 1)
    assert len(await served.read_all(deaf)) < 1_000_000
    served.go_on.set()
    assert (await asyncio.get_running_loop().sock_recv(waiting, 65536)).endswith(b"later")


@in_loop
async def test_a_client_that_reads_its_reply_late_is_answered_further(served: _Served) -> None:
    client = await served.connect()
    client.sendall(
        b"GET /long HTTP/1.1\r\n\r\n" + WHOLE.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    )
    await served.pass_time(STEP_SECONDS - 1)
    found = await served.read_all(client)
    assert (found.count(b"HTTP/1.1 200 OK"), found[-2:]) == (2, b"{}")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", 400),
        (b"GET /\r\n\r\n" + WHOLE, 400),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n" + WHOLE, 431),
        (b"POST /echo HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413),
        (
            b"POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
            + b"1\r\nx\r\n" * (MAX_BODY_BYTES // 6 + 1),
            413,
        ),
    ],
)
@in_loop
async def test_what_is_refused_ends_the_connection(served: _Served, sent: bytes, status: int) -> None:
    """Whatever follows it; tests/attacks has more of what is refused."""
    client = await served.connect()
    await asyncio.get_running_loop().sock_sendall(client, sent)
    found = await served.read_all(client)
    assert found.startswith(b"HTTP/1.1 %d " % status)
    assert (found.count(b"HTTP/1.1 "), served.handled, served.table.malformed) == (1, [], 1)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"content-length: %d" % MAX_BODY_BYTES, b"x" * MAX_BODY_BYTES),
        (b"transfer-encoding: chunked", b"4\r\n\r\n\r\n\r\n" * 3 + b"0;a=b\r\ntraceparent: 9\r\n\r\n"),
    ],
)
@in_loop
async def test_a_body_within_the_limit_is_read_to_its_end(served: _Served, head: bytes, body: bytes) -> None:
    """And what follows it is the next request."""
    client = await served.connect()
    sent = b"POST /echo HTTP/1.1\r\n%b\r\n\r\n%b" % (head, body)
    last = b"GET /last HTTP/1.1\r\nconnection: close\r\n\r\n"
    reading = asyncio.ensure_future(served.read_all(client))
    await asyncio.get_running_loop().sock_sendall(client, sent + last)
    found = await reading
    assert served.handled == [b"/echo", b"/last"]
    assert b"\r\n\r\n" + (b"x" * MAX_BODY_BYTES if b"x" in body else b"\r\n\r\n" * 3) + b"HTTP" in found


@in_loop
async def test_a_request_is_handled_without_a_body_that_is_not_to_be_read(served: _Served) -> None:
    """Nor is the client told to send it; what it sends is no request, and the connection ends."""
    served.may_ask = False
    client = await served.connect()
    assert await served.ask(client)
    client.sendall(b"POST /echo HTTP/1.1\r\ncontent-length: 200000\r\nexpect: 100-continue\r\n\r\n" + WHOLE)
    found = await served.read_all(client)
    assert found.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n")
    assert b"\r\nconnection: close\r\n" in found
    assert served.handled == [b"/", b"/echo"]
