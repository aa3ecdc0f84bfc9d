"""Connections to the agent: requests are read within limits of size and time, and answered in order.

The parser is llhttp, by httptools. The deadlines, the limits and the kernel's word on who is calling are all about
the connection, which web servers do not give access to.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import cast

from keyferry._core.extras import missing_extra
from keyferry.agent.access import Caller
from keyferry.agent.message import AgentReply, AgentRequest, encode_reply, reply_status
from keyferry.agent.sockets import has_hung_up, peer_of

try:
    from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
except ImportError as missing:
    raise missing_extra("agent", missing) from None

__all__ = ["NEVER", "AgentConnection", "ConnectionTable", "Handler"]

MOST_HEAD_BYTES = 16 * 1024
MOST_BODY_BYTES = 256 * 1024
# For a whole head, for a whole body, and for a reply that the client does not read.
STEP_SECONDS = 10.0
# How long a connection may stay open between two requests.
IDLE_SECONDS = 60.0
# Requests that wait on one connection for those before them; clients have no reason to send more.
_MOST_WAITING = 64
# Of one read; more arrives with the next one.
_READ_BYTES = 64 * 1024
NEVER = float("inf")
_NOBODY = Caller(-1, frozenset())
_NO_HEADERS: Mapping[bytes, bytes] = {}

Handler = Callable[[AgentRequest], "AgentReply | Awaitable[AgentReply]"]


class ConnectionTable:
    """All connections, and their limits: in total, and half of that for each user.

    A new connection beyond a limit takes the place of the one that has been silent for longest, so that silent
    clients do not shut out others; it is closed itself if all are busy.
    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self.most = most
        self.clock = clock
        # Connections closed for others, those that missed a deadline within a request, and requests not understood.
        self.refused = self.too_slow = self.malformed = 0
        # The ids of requests.
        self.numbers = count(1)
        # Where asyncio reads to: what arrives is parsed before the next read, of whichever connection.
        self.buffer = memoryview(bytearray(_READ_BYTES))
        # Those of each user in the order of their last replies. Not plain dictionaries, as in a cache.
        self._by_user: dict[int, OrderedDict[AgentConnection, None]] = {}
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def add(self, connection: "AgentConnection") -> bool:
        """Take in a connection, and close another one if there are too many; False if none can be closed."""
        own = self._by_user.setdefault(connection.caller.uid, OrderedDict())
        crowd: OrderedDict[AgentConnection, None] | None = None
        if len(own) >= max(self.most // 2, 1):
            crowd = own
        elif self._number >= self.most:
            crowd = max(self._by_user.values(), key=len)
        if crowd is not None:
            silent = next((each for each in crowd if each.is_silent), None)
            self.refused += 1
            if silent is None:
                return False
            self.drop(silent)
            silent.abort()
        self._by_user.setdefault(connection.caller.uid, OrderedDict())[connection] = None
        self._number += 1
        return True

    def note_use(self, connection: "AgentConnection") -> None:
        """Take a connection for the one that was used last."""
        own = self._by_user.get(connection.caller.uid)
        if own is not None and connection in own:
            own.move_to_end(connection)

    def drop(self, connection: "AgentConnection") -> None:
        """Forget a connection."""
        own = self._by_user.get(connection.caller.uid)
        if own is not None and own.pop(connection, self) is None:
            self._number -= 1
            if not own:
                del self._by_user[connection.caller.uid]

    def all(self) -> "list[AgentConnection]":
        """Return all connections."""
        return [each for own in self._by_user.values() for each in own]

    def sweep(self) -> None:
        """Close every connection whose deadline has passed."""
        now = self.clock()
        for connection in self.all():
            if connection.deadline < now:
                self.too_slow += not connection.is_idle
                connection.abort()


class AgentConnection(asyncio.BufferedProtocol):
    """One client: its requests are handled one after the other.

    With a plain protocol asyncio allocates 256 KiB for every read, and the C library asks the kernel for as much and
    gives it back: three system calls more than the two of a request, and all pages looked up anew.
    """

    def __init__(self, table: ConnectionTable, handle: Handler) -> None:
        self.caller = _NOBODY
        self.deadline = NEVER
        self._table = table
        self._handle = handle
        self._parser = HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: list[AgentRequest] = []
        self._task: asyncio.Task[None] | None = None
        # Whether the client does not read its replies.
        self._is_held = False
        self._has_served = False
        # Whether something has arrived since the last reply; the time for a head has begun then.
        self._is_heard = False
        # Whether the client sends no more, and reads its last replies.
        self._is_half_closed = False
        self._is_last = False
        self._is_ending = False
        self._head_bytes = self._unfinished_bytes = self._body_bytes = 0
        self._reset()

    @property
    def is_silent(self) -> bool:
        """Whether no whole request has arrived that is not answered."""
        return self._task is None and not self._waiting

    @property
    def is_idle(self) -> bool:
        """Whether the connection rests between two requests, all of whose replies were sent."""
        is_between = self._has_served and not self._is_heard and not self._is_begun
        return is_between and self.is_silent and not self._is_held

    def identify(self, transport: asyncio.BaseTransport) -> Caller:
        """Return who is calling, by the kernel's word; raise OSError if it cannot be told."""
        return peer_of(transport.get_extra_info("socket"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the kernel who is calling; close the connection if there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        try:
            self.caller = self.identify(transport)
        except OSError:
            self.abort()
            return
        self.deadline = self._table.clock() + STEP_SECONDS
        if not self._table.add(self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio calls it
        """Forget the connection; a lookup that is under way continues, since its answer is cached."""
        self._table.drop(self)
        self._transport = None
        self._waiting.clear()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Return the memory for the next read."""
        return self._table.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what has been read."""
        self.feed(self._table.buffer[:nbytes])

    def feed(self, data: bytes | memoryview) -> None:
        """Parse a part of what the client sends."""
        if self._is_ending:
            return
        self._hear()
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._refuse(400, "no other protocol is spoken here")
            return
        except HttpParserError:
            self._refuse(400, "the request is not HTTP/1.1")
            return
        if self._is_begun and not self._has_head:
            self._unfinished_bytes += len(data)
        if max(self._head_bytes, self._unfinished_bytes) > MOST_HEAD_BYTES:
            self._refuse(431, f"the head of the request is longer than {MOST_HEAD_BYTES} bytes")
        elif self._body_bytes > MOST_BODY_BYTES:
            self._refuse(413, f"the body of the request is longer than {MOST_BODY_BYTES} bytes")

    def eof_received(self) -> bool:
        """Keep the connection of a client that sends no more for the replies that it waits for."""
        self._is_half_closed = True
        is_gone = self._transport is None or has_hung_up(self._transport.get_extra_info("socket"))
        return not is_gone and not self.is_silent

    def pause_writing(self) -> None:
        """Give a client that does not read its replies some time, and take no more requests from it."""
        self._is_held = True
        self.deadline = self._table.clock() + STEP_SECONDS
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on: the client reads again."""
        self._is_held = False
        self._rest()
        self._go_on()

    # The parser calls the following methods.

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._reset()
        self._is_begun = True
        self._hear()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._head_bytes += len(url)
        self._url += url[:MOST_HEAD_BYTES]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; only a few matter here."""
        self._head_bytes += len(name) + len(value)
        lower = name.lower()
        if lower == b"traceparent":
            self._traceparent = value[:64].decode("ascii", "replace")
        elif lower == b"expect" and value.lower() == b"100-continue":
            self._is_expecting = True
        elif lower == b"content-length" and value.isdigit():
            # Refused before it is sent, and before the client is told to send it.
            self._body_bytes = int(value[:16]) if int(value[:16]) > MOST_BODY_BYTES else 0

    def on_headers_complete(self) -> None:
        """Begin the body."""
        self._has_head = True
        self._is_upgrade = self._parser.should_upgrade()
        self._unfinished_bytes = 0
        self.deadline = self._table.clock() + STEP_SECONDS
        if self._is_expecting and not self._is_refusable and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body_bytes += len(body)
        if self._body_bytes <= MOST_BODY_BYTES:
            self._body += body

    def on_message_complete(self) -> None:
        """Handle a whole request, or let it wait for those before it."""
        self._is_begun = False
        if self._is_refusable:
            return
        path, _, query = self._url.partition(b"?")
        request = AgentRequest(
            self._parser.get_method(),
            path,
            bytes(self._body),
            self.caller,
            self._traceparent,
            self._parser.should_keep_alive(),
            query,
            self._headers,
            next(self._table.numbers),
        )
        if self._task is None and not self._is_held:
            self._start(request)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.append(request)
        else:
            self.abort()

    def end(self) -> None:
        """Close the connection after the next reply, or now if it is idle between two requests."""
        self._is_last = True
        if self._task is None and self._has_served and not self._is_begun:
            self._is_ending = True
            self._close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_refusable(self) -> bool:
        is_long = self._head_bytes > MOST_HEAD_BYTES or self._body_bytes > MOST_BODY_BYTES
        return is_long or self._is_upgrade

    def _reset(self) -> None:
        self._url = b""
        self._traceparent = ""
        self._headers: Mapping[bytes, bytes] = _NO_HEADERS
        self._body = bytearray()
        self._head_bytes = self._unfinished_bytes = self._body_bytes = 0
        self._is_begun = self._has_head = self._is_expecting = self._is_upgrade = False

    def _hear(self) -> None:
        """Begin the time for a head with its first byte, which may be of an empty line."""
        if not self._is_heard and self._task is None:
            self._is_heard = True
            self.deadline = self._table.clock() + STEP_SECONDS

    def _rest(self) -> None:
        """Give the client time for its next request, of which a part may have arrived."""
        self._is_heard = self._is_begun
        self.deadline = self._table.clock() + (STEP_SECONDS if self._is_begun else IDLE_SECONDS)

    def _start(self, request: AgentRequest) -> None:
        self.deadline = NEVER
        reply = self._handle(request)
        if isinstance(reply, AgentReply):
            self._send(reply, is_kept_alive=request.is_kept_alive, has_body=request.method != b"HEAD")
        else:
            self._task = asyncio.ensure_future(self._finish(request, reply))

    async def _finish(self, request: AgentRequest, pending: Awaitable[AgentReply]) -> None:
        reply = await pending
        self._task = None
        self._send(reply, is_kept_alive=request.is_kept_alive, has_body=request.method != b"HEAD")
        self._go_on()

    def _send(self, reply: AgentReply, *, is_kept_alive: bool, has_body: bool = True) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._has_served = True
        self._table.note_use(self)
        is_last = self._is_last or not is_kept_alive or (self._is_half_closed and not self._waiting)
        self._rest()
        # The transport may call pause_writing, which sets an earlier deadline.
        self._transport.write(encode_reply(reply, is_kept_alive=not is_last, has_body=has_body))
        if is_last:
            self._is_ending = True
            self._close()

    def _refuse(self, status: int, message: str) -> None:
        self._table.malformed += 1
        self._send(reply_status(status, "BadRequest", message), is_kept_alive=False)

    def _close(self) -> None:
        # What is written is still sent; a client that does not read it has until the deadline.
        self.deadline = self._table.clock() + STEP_SECONDS
        if self._transport is not None:
            self._transport.close()

    def _go_on(self) -> None:
        """Handle the requests that have waited, and read more."""
        while self._waiting and self._task is None and not self._is_held and not self._is_ending:
            self._start(self._waiting.pop(0))
        if self._transport is not None and not self._is_held and not self._is_ending:
            self._transport.resume_reading()
