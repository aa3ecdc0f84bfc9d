"""Connections to the page: over loopback, with the headers that tell where a request comes from, and streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from socket import socket

from keyferry._core.values import replace
from keyferry.agent.access import Caller
from keyferry.agent.connection import NEVER, AgentConnection, ConnectionTable, Handler
from keyferry.agent.message import AgentReply, EventSink, encode_stream_head, reply_status
from keyferry.agent.page.guard import KEPT_HEADERS, SECURITY_HEADERS
from keyferry.agent.page.peer import loopback_uid

__all__ = ["UNKNOWN_UID", "PageConnection", "listen"]

UNKNOWN_UID = -1
_NO_GROUPS: frozenset[int] = frozenset()


class PageConnection(AgentConnection, EventSink):
    """One browser, or whatever else connects to the page, which is only read."""

    most_body_bytes = 0

    def __init__(self, table: ConnectionTable, handle: Handler) -> None:
        self._on_gone: Callable[[], None] | None = None
        super().__init__(table, handle)

    @property
    def is_silent(self) -> bool:
        """Whether no request waits for its reply, and no stream goes on that the client reads."""
        return (self._on_gone is None or self._is_held) and super().is_silent

    def identify(self, transport: asyncio.BaseTransport) -> Caller:
        """Return the user at the other end, if the kernel tells; it has no rights by that."""
        uid = loopback_uid(transport.get_extra_info("socket"))
        return Caller(uid=UNKNOWN_UID if uid is None else uid, gids=_NO_GROUPS)

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what has been read; what a client sends into a stream is not."""
        if self._on_gone is None:
            super().buffer_updated(nbytes)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one that is repeated is the sum of both, which is not what is expected."""
        super().on_header(name, value)
        lower = name.lower()
        if lower in KEPT_HEADERS:
            self._kept[lower] = self._kept[lower] + b", " + value if lower in self._kept else value

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and its stream."""
        super().connection_lost(exc)
        if self._on_gone is not None:
            self._on_gone()

    def resume_writing(self) -> None:
        """Go on: the client reads again."""
        super().resume_writing()
        if self._on_gone is not None:
            self.deadline = NEVER

    def write(self, data: bytes) -> bool:
        """Send more of a stream; return False if the client does not read what was sent before."""
        if self._transport is None or self._transport.is_closing() or self._is_held:
            return False
        self._transport.write(data)
        return True

    def close(self) -> None:
        """End a stream, after all that was sent."""
        self._close()

    def _reset(self) -> None:
        super()._reset()
        self._headers = self._kept = dict[bytes, bytes]()

    def _refuse(self, status: int, message: str) -> None:
        reply = reply_status(status, "BadRequest", message)
        self._send(replace(reply, headers=SECURITY_HEADERS), is_kept_alive=False)

    def _send(self, reply: AgentReply, *, is_kept_alive: bool, has_body: bool = True) -> None:
        if reply.follow is None or not has_body:
            super()._send(reply, is_kept_alive=is_kept_alive, has_body=has_body)
            return
        if self._transport is None or self._transport.is_closing():
            return
        self.deadline = NEVER
        self._arrived.clear()
        self._transport.write(encode_stream_head(reply))
        self._on_gone = reply.follow(self)
        # A browser that sends no more has gone, which TCP alone does not tell.
        self._transport.resume_reading()


async def listen(bound: socket, table: ConnectionTable, handle: Handler) -> asyncio.Server:
    """Serve the page on a bound socket."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: PageConnection(table, handle), sock=bound)
