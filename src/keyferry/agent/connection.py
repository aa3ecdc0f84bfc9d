"""Connections to the agent: requests are read within limits of size and time, and answered one at a time.

The parser is llhttp, by httptools. The deadlines, the limits and the kernel's word on who is calling are all about
the connection, which web servers do not give access to.
"""

from __future__ import annotations

import asyncio
import socket
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

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 256 * 1024
# For a whole head, for a whole body, and for a reply that the client does not read.
STEP_SECONDS = 10.0
# How long a connection may stay open between two requests.
IDLE_SECONDS = 60.0
# Of one read. What it brings of later requests waits in memory, so it is no more than a head may have.
_READ_BYTES = MAX_HEAD_BYTES
# Of a head, and of a body in chunks.
_END = b"\r\n\r\n"
NEVER = float("inf")
_NOBODY = Caller(uid=-1, gids=frozenset())
_NO_HEADERS: Mapping[bytes, bytes] = {}

Handler = Callable[[AgentRequest], "AgentReply | Awaitable[AgentReply]"]
# Tells whether the bodies of a caller are read; a request is handled without its body otherwise.
Gate = Callable[[Caller], bool]
# Returns who is at the other end of a connection; raises OSError if it cannot be told.
Identify = Callable[[socket.socket], Caller]


class ConnectionTable:
    """All connections, and their limits: in total, and for each user no more than are still free for others.

    So one user has at most half of them, and however many lookups some users wait for, there is a place for the next
    one. A new connection beyond a limit takes the place of one that is silent: that of its own user that has been so
    for longest, else that of the user who has most. It is closed itself if all are busy.
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

    def add(self, connection: AgentConnection) -> bool:
        """Take in a connection, and close another one if there are too many; False if none can be closed."""
        uid = connection.caller.uid
        own = self._by_user.get(uid, OrderedDict())
        if len(own) >= self.most - self._number:
            self.refused += 1
            crowds = [own, *sorted(self._by_user.values(), key=len, reverse=True)]
            silent = next((each for crowd in crowds for each in crowd if each.is_silent), None)
            if silent is None:
                return False
            self.drop(silent)
            silent.abort()
        self._by_user.setdefault(uid, OrderedDict())[connection] = None
        self._number += 1
        return True

    def note_use(self, connection: AgentConnection) -> None:
        """Take a connection for the one that was used last."""
        own = self._by_user.get(connection.caller.uid)
        if own is not None and connection in own:
            own.move_to_end(connection)

    def drop(self, connection: AgentConnection) -> None:
        """Forget a connection."""
        own = self._by_user.get(connection.caller.uid)
        if own is not None and own.pop(connection, self) is None:
            self._number -= 1
            if not own:
                del self._by_user[connection.caller.uid]

    def all(self) -> list[AgentConnection]:
        """Return all connections."""
        return [each for own in self._by_user.values() for each in own]

    def sweep(self) -> None:
        """Close every connection whose deadline has passed, or whose client has gone during its request."""
        now = self.clock()
        for connection in self.all():
            is_late = connection.deadline < now
            if is_late or connection.is_deserted:
                self.too_slow += is_late and not connection.is_idle
                connection.abort()


class AgentConnection(asyncio.BufferedProtocol):
    """One client: one request at a time is read, handled and answered.

    Nothing is read from the end of a request until its reply is written, and what has arrived behind it waits
    unparsed. So a client has one request handled at a time, and then others have theirs, however many it sends.

    With a plain protocol asyncio allocates 256 KiB for every read, and the C library asks the kernel for as much and
    gives it back: three system calls more than the two of a request, and all pages looked up anew.
    """

    max_body_bytes = MAX_BODY_BYTES

    def __init__(
        self,
        table: ConnectionTable,
        handle: Handler,
        gate: Gate = lambda _: True,
        identify: Identify = peer_of,
    ) -> None:
        self.caller = _NOBODY
        self.deadline = NEVER
        self._table = table
        self._handle = handle
        self._gate = gate
        self._identify = identify
        self._parser = HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        # What is not parsed, behind a few bytes that are: an end may arrive in two parts.
        self._arrived = bytearray()
        self._parsed_bytes = 0
        # Whether the client does not read its reply.
        self._is_held = False
        self._has_served = False
        # Whether something has arrived since the last reply; the time for a head has begun then.
        self._is_heard = False
        self._is_last = False
        self._reset()

    @property
    def is_silent(self) -> bool:
        """Whether no request waits for its reply; what waits for the client to read counts as silent."""
        return self._task is None

    @property
    def is_idle(self) -> bool:
        """Whether the connection rests between two requests, all of whose replies were sent."""
        return self._has_served and not self._is_heard and self.is_silent and not self._is_held

    @property
    def is_deserted(self) -> bool:
        """Whether the client has gone during its request, when nothing is read that would tell."""
        transport = None if self._task is None else self._transport
        return transport is not None and has_hung_up(transport.get_extra_info("socket"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the kernel who is calling; close the connection if there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        # A reply is written when the kernel has taken all of it.
        self._transport.set_write_buffer_limits(high=0)
        try:
            self.caller = self._identify(transport.get_extra_info("socket"))
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

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Return the memory for the next read."""
        return self._table.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what has been read."""
        # The time for a head begins with its first byte, which may be of an empty line.
        if not self._is_heard:
            self._is_heard = True
            self.deadline = self._table.clock() + STEP_SECONDS
        self._arrived += self._table.buffer[:nbytes]
        self._skip_empty_lines()
        self._go_on()

    def pause_writing(self) -> None:
        """Give a client that does not read its reply some time, and take no more requests from it."""
        self._is_held = True
        self.deadline = self._table.clock() + STEP_SECONDS
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on: the client has read its reply."""
        self._is_held = False
        self._wait_for_more()

    # The parser calls the following methods.

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; only a few matter here, and none behind a body in chunks."""
        lower = name.lower()
        if self._has_head:
            return
        if lower == b"traceparent":
            self._traceparent = value[:64].decode("ascii", "replace")
        elif lower == b"expect":
            self._is_expecting = value.lower() == b"100-continue"
        elif lower == b"content-length":
            self._length = int(value)
        elif lower == b"transfer-encoding":
            self._is_in_chunks = True

    def on_headers_complete(self) -> None:
        """Note the end of the head, and what the parser forgets with the request."""
        self._has_head = True
        self._is_kept_alive = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Note the end of the request."""
        self._is_whole = True

    def end(self) -> None:
        """Close the connection after the next reply, or now if it is idle between two requests."""
        self._is_last = True
        if self._task is None and self._has_served and not self._is_heard:
            self._close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_ready(self) -> bool:
        """Whether the client is there and reads; for one that leaves nothing more is done."""
        return self._transport is not None and not self._transport.is_closing() and not self._is_held

    def _reset(self) -> None:
        """Forget a request."""
        self._url = b""
        self._traceparent = ""
        self._headers: Mapping[bytes, bytes] = _NO_HEADERS
        self._body = bytearray()
        # Of the body, as the head says.
        self._length = 0
        # That have arrived of the head, then of the body.
        self._section_bytes = 0
        self._has_head = self._is_whole = self._is_kept_alive = False
        self._is_expecting = self._is_in_chunks = False

    def _skip_empty_lines(self) -> None:
        """Drop the empty lines before a request; some clients end a body with one."""
        if not self._section_bytes and not self._has_head:
            self._arrived = self._arrived.lstrip(b"\r\n")

    def _go_on(self) -> None:
        """Parse what has arrived, up to the end of one request, and handle that; read on if there is none."""
        while self._is_ready and not self._is_whole and len(self._arrived) > self._parsed_bytes:
            self._parse(self._take_piece())
        if not self._is_ready or self._transport is None:
            return
        if self._is_whole:
            self._start(self._make_request())
        else:
            self._transport.resume_reading()

    def _take_piece(self) -> bytes:
        """Take what is of this request for certain: the bytes of a known length, or those up to an end."""
        if self._has_head and not self._is_in_chunks:
            end, kept = self._length - self._section_bytes, 0
        else:
            at = self._arrived.find(_END)
            end = len(self._arrived) if at < 0 else at + len(_END)
            kept = min(end, len(_END) - 1) if at < 0 else 0
        piece = bytes(self._arrived[self._parsed_bytes : end])
        self._parsed_bytes = kept
        del self._arrived[: end - kept]
        return piece

    def _parse(self, piece: bytes) -> None:
        self._section_bytes += len(piece)
        had_head = self._has_head
        if not had_head and self._section_bytes > MAX_HEAD_BYTES:
            self._refuse(431, f"the head of the request is longer than {MAX_HEAD_BYTES} bytes")
            return
        if had_head and self._section_bytes > self.max_body_bytes:
            self._refuse_body()
            return
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            self._refuse(400, "no other protocol is spoken here")
        except HttpParserError:
            self._refuse(400, "the request is not HTTP/1.1")
        else:
            if self._has_head and not had_head:
                self._check_head()

    def _check_head(self) -> None:
        """Refuse a request by its head, or wait for its body, if that is to be read."""
        self._section_bytes = 0
        if self._parser.get_http_version() != "1.1":
            self._refuse(400, "the request is not HTTP/1.1")
        elif self._is_whole:
            return
        elif not self._gate(self.caller):
            self._is_whole, self._is_kept_alive = True, False
        elif self._length > self.max_body_bytes:
            self._refuse_body()
        else:
            self.deadline = self._table.clock() + STEP_SECONDS
            if self._is_expecting and self._transport is not None:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _make_request(self) -> AgentRequest:
        path, _, query = self._url.partition(b"?")
        return AgentRequest(
            method=self._parser.get_method(),
            path=path,
            body=bytes(self._body),
            caller=self.caller,
            traceparent=self._traceparent,
            query=query,
            headers=self._headers,
            number=next(self._table.numbers),
        )

    def _start(self, request: AgentRequest) -> None:
        self.deadline = NEVER
        reply = self._handle(request)
        if isinstance(reply, AgentReply):
            self._send(reply, is_kept_alive=self._is_kept_alive, has_body=request.method != b"HEAD")
            return
        self._task = asyncio.ensure_future(self._finish(request, reply))
        if self._transport is not None:
            self._transport.pause_reading()

    async def _finish(self, request: AgentRequest, pending: Awaitable[AgentReply]) -> None:
        reply = await pending
        self._task = None
        self._send(reply, is_kept_alive=self._is_kept_alive, has_body=request.method != b"HEAD")

    def _send(self, reply: AgentReply, *, is_kept_alive: bool, has_body: bool = True) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._has_served = True
        self._table.note_use(self)
        self._reset()
        self._skip_empty_lines()
        self._is_heard = bool(self._arrived)
        is_last = self._is_last or not is_kept_alive
        # The transport may call pause_writing.
        self._transport.write(encode_reply(reply, is_kept_alive=not is_last, has_body=has_body))
        if is_last:
            self._close()
        elif not self._is_held:
            self._wait_for_more()

    def _refuse(self, status: int, message: str) -> None:
        self._table.malformed += 1
        self._send(reply_status(status, "BadRequest", message), is_kept_alive=False)

    def _refuse_body(self) -> None:
        self._refuse(413, f"the body of the request is longer than {self.max_body_bytes} bytes")

    def _close(self) -> None:
        # What is written is still sent; a client that does not read it has until the deadline.
        self.deadline = self._table.clock() + STEP_SECONDS
        if self._transport is not None:
            self._transport.close()

    def _wait_for_more(self) -> None:
        """Go on with what has arrived after the requests of others; read if nothing has."""
        self.deadline = self._table.clock() + (STEP_SECONDS if self._is_heard else IDLE_SECONDS)
        if self._transport is None:
            return
        if len(self._arrived) > self._parsed_bytes:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._transport.resume_reading()
