"""Streams over real connections: one that is read goes on, one that is not read is cut off."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from keyferry.agent.connection import NEVER, STEP_SECONDS, ConnectionTable
from keyferry.agent.message import AgentReply, AgentRequest, EventSink
from keyferry.agent.page.server import PageConnection

PIECE = b"x" * 100_000
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class World:
    """A server whose every reply is a stream, on a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.table = ConnectionTable(16, lambda: self.now)
        self.sinks: list[EventSink] = []
        self.gone = 0

    def handle(self, request: AgentRequest) -> AgentReply:
        """Answer with a stream; a HEAD gets its head."""
        assert request.headers[b"host"] == b"a, b"
        return AgentReply(status=200, body=b"", content_type=b"text/event-stream", follow=self._follow)

    def _follow(self, sink: EventSink) -> Callable[[], None]:
        self.sinks.append(sink)
        return self._leave

    def _leave(self) -> None:
        self.gone += 1

    @asynccontextmanager
    async def connect(self, method: str = "GET") -> AsyncIterator[Client]:
        """Open a stream."""
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: PageConnection(self.table, self.handle), sock=bound)
        reader, writer = await asyncio.open_connection(*bound.getsockname(), limit=1000)
        try:
            writer.write(f"{method} / HTTP/1.1\r\nhost: a\r\nHost: b\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
            yield reader, writer
        finally:
            writer.transport.abort()
            for each in self.table.all():
                each.abort()
            server.close()
            await asyncio.sleep(0.01)

    def connection(self) -> PageConnection:
        """The only connection."""
        [found] = self.table.all()
        assert isinstance(found, PageConnection)
        return found


def test_a_stream_goes_on_until_it_is_closed() -> None:
    async def follow() -> None:
        world = World()
        async with world.connect() as (reader, writer):
            [sink] = world.sinks
            assert (world.connection().deadline, world.connection().is_silent) == (NEVER, False)
            world.now += 1000
            world.table.sweep()
            assert sink.write(b"data: 1\n\n")
            assert await reader.readuntil(b"\n\n") == b"data: 1\n\n"
            assert sink.write(b"data: 2\n\n")
            sink.close()
            assert await reader.read() == b"data: 2\n\n"
            writer.close()
            await asyncio.sleep(0.01)
            assert (world.gone, len(world.table), sink.write(b"more")) == (1, 0, False)

    asyncio.run(follow())


def test_what_a_client_sends_into_a_stream_is_not_read() -> None:
    async def follow() -> None:
        world = World()
        async with world.connect() as (_, writer):
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n" * 100)
            await writer.drain()
            await asyncio.sleep(0.05)
            assert (len(world.sinks), len(world.table)) == (1, 1)

    asyncio.run(follow())


async def fill(sink: EventSink) -> int:
    """Write until the client has not read; return how many bytes it was."""
    written = 0
    while sink.write(PIECE):
        written += len(PIECE)
        assert written < 1 << 28
        await asyncio.sleep(0)
    return written


def test_who_does_not_read_gets_nothing_more_and_is_cut_off() -> None:
    async def follow() -> None:
        world = World()
        async with world.connect():
            assert not world.connection().is_silent
            await fill(world.sinks[0])
            assert world.connection().is_silent  # so a new client can take its place
            assert world.connection().deadline == world.now + STEP_SECONDS
            world.now += STEP_SECONDS + 1
            world.table.sweep()
            await asyncio.sleep(0.01)
            assert (world.gone, len(world.table)) == (1, 0)

    asyncio.run(follow())


def test_who_reads_again_in_time_goes_on() -> None:
    async def follow() -> None:
        world = World()
        async with world.connect() as (reader, _):
            [sink] = world.sinks
            await reader.readexactly(await fill(sink))
            await asyncio.sleep(0.01)
            assert sink.write(b"data: more\n\n")
            assert world.connection().deadline == NEVER
            assert await reader.readexactly(12) == b"data: more\n\n"

    asyncio.run(follow())


def test_a_head_starts_no_stream() -> None:
    async def follow() -> None:
        world = World()
        async with world.connect("HEAD"):
            assert world.sinks == []

    asyncio.run(follow())
