"""Connections that are closed are counted by why; resting between two requests is no fault."""

import asyncio
import socket
from collections.abc import Callable

from keyferry.agent.connection import IDLE_SECONDS, STEP_SECONDS, AgentConnection, ConnectionTable
from keyferry.agent.message import AgentReply, AgentRequest

WHOLE = b"GET / HTTP/1.1\r\nhost: agent\r\n\r\n"


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def counted(act: Callable[[socket.socket], None], seconds: float, replies: int = 0) -> ConnectionTable:
    """Let a client act, wait for so many replies, let time pass, and sweep once; return the table."""
    clock = _Clock()
    table = ConnectionTable(8, clock)

    def handle(request: AgentRequest) -> AgentReply:
        del request
        return AgentReply(200, b"{}")

    async def run() -> None:
        theirs, ours = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: AgentConnection(table, handle), ours)
        theirs.setblocking(False)
        act(theirs)
        for _ in range(replies):
            assert (await loop.sock_recv(theirs, 65536)).startswith(b"HTTP/1.1 ")
        await asyncio.sleep(0.05)
        clock.now = seconds
        table.sweep()
        await asyncio.sleep(0.05)
        theirs.close()

    asyncio.run(run())
    return table


def test_a_silent_client_is_too_slow() -> None:
    table = counted(lambda _: None, STEP_SECONDS + 1)
    assert (table.too_slow, table.malformed, len(table)) == (1, 0, 0)


def test_half_a_request_is_too_slow() -> None:
    table = counted(lambda client: client.sendall(WHOLE + b"GET /"), IDLE_SECONDS + 1, 1)
    assert (table.too_slow, len(table)) == (1, 0)


def test_a_client_that_rests_after_its_reply_is_closed_and_not_counted() -> None:
    table = counted(lambda client: client.sendall(WHOLE), IDLE_SECONDS + 1, 1)
    assert (table.too_slow, table.malformed, len(table)) == (0, 0, 0)


def test_what_is_no_request_is_malformed() -> None:
    table = counted(lambda client: client.sendall(b"hello\r\n\r\n"), 0, 1)
    assert (table.too_slow, table.malformed) == (0, 1)


def test_a_reply_to_head_has_no_body() -> None:
    """The next reply on the connection is understood."""
    seen: list[bytes] = []

    def act(client: socket.socket) -> None:
        client.sendall(WHOLE.replace(b"GET", b"HEAD"))

    async def run() -> None:
        theirs, ours = socket.socketpair()
        loop = asyncio.get_running_loop()
        table = ConnectionTable(8, _Clock())
        await loop.connect_accepted_socket(
            lambda: AgentConnection(table, lambda _: AgentReply(200, b"{}")), ours
        )
        theirs.setblocking(False)
        act(theirs)
        seen.append(await loop.sock_recv(theirs, 65536))
        theirs.close()
        await asyncio.sleep(0)

    asyncio.run(run())
    [reply] = seen
    assert b"content-length: 2\r\n" in reply
    assert reply.endswith(b"\r\n\r\n")
