"""The page's server: who may see it is checked first, then a view is rendered from the agent's state, off the loop."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Container
from functools import lru_cache

from keyferry._core.values import Value, replace
from keyferry._net.forms import decode_query, decode_text
from keyferry._net.listen_address import ListenAddress, parse_listen_address
from keyferry.agent.access import Caller
from keyferry.agent.connection import NEVER, AgentConnection, ConnectionTable, Handler
from keyferry.agent.message import (
    AgentReply,
    AgentRequest,
    EventSink,
    encode_stream_head,
    reply_document,
    reply_status,
)
from keyferry.agent.page.access import (
    KEPT_HEADERS,
    LINK_SECONDS,
    SECURITY_HEADERS,
    SESSION_SECONDS,
    LinkProblem,
    PageAccess,
    cookie_of,
    loopback_uid,
    own_hosts,
    refuse_headers,
)
from keyferry.agent.page.explanation import explain_cached
from keyferry.agent.page.model import ModelBuilder, PageSnapshot, PageSource
from keyferry.agent.sockets import listen_at
from keyferry.api.meta import format_time
from keyferry.page.model import PageModel
from keyferry.page.render import RenderedView, render_notice, render_view, static_file

_SECOND = 1_000_000_000
_MAX_CONNECTIONS = 256
_BACKLOG = 128
_SWEEP_SECONDS = 1.0
_SWITCH_SECONDS = 0.0005
# How old what is sent to those who follow may be: the views of one update are of one instant.
_FRESH_SECONDS = 0.5
_HTML, _TEXT, _EVENTS = b"text/html; charset=utf-8", b"text/plain; charset=utf-8", b"text/event-stream"
_STATIC = "/static/"
_LINK_PROBLEMS = {
    LinkProblem.USED: "This link was used before; each link works once.",
    LinkProblem.LATE: f"This link is older than {LINK_SECONDS} seconds.",
    LinkProblem.OTHER_USER: "This link was made for another user of this machine.",
    LinkProblem.UNKNOWN: "This agent did not make this link; it may have been restarted since.",
}
UNKNOWN_UID = -1
MAX_STREAMS = 32
_UPDATE_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
_HEARTBEAT = b"event: alive\ndata: {}\n\n"
_GONE = b"event: gone\ndata: {}\n\n"

Sections = dict[str, str]
_Reply = AgentReply | Awaitable[AgentReply]


class PageConnection(AgentConnection, EventSink):
    """One browser, or whatever else connects to the page, which is only read."""

    max_body_bytes = 0

    def __init__(self, table: ConnectionTable, handle: Handler) -> None:
        self._on_gone: Callable[[], None] | None = None
        super().__init__(table, handle, identify=_identify)

    @property
    def is_silent(self) -> bool:
        """Whether no request waits for its reply, and no stream goes on that the client reads."""
        return (self._on_gone is None or self._is_held) and super().is_silent

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
        self._send(reply._replace(headers=SECURITY_HEADERS), is_kept_alive=False)

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


def _identify(connected: socket.socket) -> Caller:
    """Return the user at the other end, if the kernel tells; it has no rights by that."""
    uid = loopback_uid(connected)
    return Caller(uid=UNKNOWN_UID if uid is None else uid, gids=frozenset())


class EventStream:
    """One client that follows a view; *is_allowed* tells whether it still may."""

    def __init__(self, view: str, sink: EventSink, is_allowed: Callable[[], bool], now: float) -> None:
        self.view = view
        self.is_allowed = is_allowed
        self._sink = sink
        self._sent: Sections = {}
        self._last_at = now

    def update(self, sections: Sections, now: float) -> None:
        """Send what differs from what was sent before; a client that does not read gets nothing meanwhile."""
        changed = {name: html for name, html in sections.items() if self._sent.get(name) != html}
        if changed:
            data = json.dumps(changed).encode()
            if self._sink.write(b"event: sections\ndata: %b\n\n" % data):
                self._sent, self._last_at = sections, now
        elif now - self._last_at >= _HEARTBEAT_SECONDS and self._sink.write(_HEARTBEAT):
            self._last_at = now

    def end(self) -> None:
        """Say that the agent stops, and close."""
        self._sink.write(_GONE)
        self._sink.close()

    def cut(self) -> None:
        """Close without a word: the client asks again, and is told why not."""
        self._sink.close()


class EventHub:
    """All streams. Nothing is rendered while there is none, and equal views are rendered once."""

    def __init__(
        self,
        render: Callable[[str], Awaitable[Sections | None]],
        *,
        clock: Callable[[], float] = time.monotonic,
        pause_seconds: float = _UPDATE_SECONDS,
    ) -> None:
        self._render = render
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._streams: dict[EventStream, None] = {}
        self._wake = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether there are as many streams as there may be."""
        return len(self._streams) >= MAX_STREAMS

    def __len__(self) -> int:
        return len(self._streams)

    def follow(self, view: str, sink: EventSink, is_allowed: Callable[[], bool]) -> Callable[[], None]:
        """Take in a stream; return what to call when its client has gone."""
        stream = EventStream(view, sink, is_allowed, self._clock())
        self._streams[stream] = None
        self._wake.set()
        return lambda: self._drop(stream)

    def end(self) -> None:
        """Tell all that the agent stops."""
        for stream in list(self._streams):
            stream.end()
        self._streams.clear()

    async def run(self) -> None:
        """Update all streams once a second, until cancelled."""
        while True:
            await self._wake.wait()
            await self.update()
            await asyncio.sleep(self._pause_seconds)

    async def update(self) -> None:
        """Render each view that is followed, and send what has changed."""
        for stream in [each for each in self._streams if not each.is_allowed()]:
            self._drop(stream)
            stream.cut()
        by_view: dict[str, list[EventStream]] = {}
        for stream in self._streams:
            by_view.setdefault(stream.view, []).append(stream)
        for view, streams in by_view.items():
            sections = await self._render(view)
            for stream in streams:
                if sections is not None and stream in self._streams:
                    stream.update(sections, self._clock())

    def _drop(self, stream: EventStream) -> None:
        self._streams.pop(stream, None)
        if not self._streams:
            self._wake.clear()


class _Address(Value):
    """What is asked for: a path and a query, decoded."""

    path: str
    query: dict[str, str]


def _read_address(path: str, query: str) -> _Address:
    return _Address(path=decode_text(path), query=decode_query(query))


class PageServer:
    """The page on a loopback address. What it shows comes from *source*; *may_manage* judges who asked for a link."""

    def __init__(
        self,
        address: str,
        source: PageSource,
        may_manage: Callable[[Caller], bool],
        shared: Container[ListenAddress] = (),
    ) -> None:
        found = parse_listen_address(address)
        assert found is not None  # noqa: S101 - the setting was checked
        self._address = found
        self._source = source
        self._may_manage = may_manage
        self._shared = shared
        self._access = PageAccess()
        self._connections = ConnectionTable(_MAX_CONNECTIONS, time.monotonic)
        self._hub = EventHub(self._render_sections)
        self._hosts: frozenset[str] = frozenset()
        self._server: asyncio.Server | None = None
        self._builder = ModelBuilder()
        self._rendering = asyncio.Lock()
        self._last: tuple[float, PageSnapshot, PageModel] | None = None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self._address}/"

    async def start(self) -> None:
        """Listen; raise EnvironmentProblem if that is not possible."""
        bound = listen_at(self._address, "page", _BACKLOG, is_shared=self._address in self._shared)
        self._address = replace(self._address, port=bound.getsockname()[1])
        self._hosts = own_hosts(self._address.host, self._address.port)
        # A lookup that comes while a view is rendered waits for that long, at most.
        sys.setswitchinterval(_SWITCH_SECONDS)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: PageConnection(self._connections, self.handle), sock=bound
        )

    async def run(self) -> None:
        """Update those who follow, and close connections that are silent for too long, until cancelled."""
        updates = asyncio.create_task(self._hub.run())
        try:
            while True:
                await asyncio.sleep(_SWEEP_SECONDS)
                self._connections.sweep()
                self._forget()
        finally:
            updates.cancel()

    def stop(self) -> None:
        """Take no more clients, and tell those who follow."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self._hub.end()
        for connection in self._connections.all():
            connection.end()

    def abort(self) -> None:
        """Close every connection at once."""
        for connection in self._connections.all():
            connection.abort()

    def make_link(self, caller: Caller) -> AgentReply:
        """Return a link that opens the page once, for a caller who may manage the agent."""
        if self._server is None:
            return reply_status(503, "Stopping", "this agent serves its page no more")
        key = self._access.make_link(caller)
        until = format_time(time.time_ns() + LINK_SECONDS * _SECOND)
        return reply_document("PageLink", url=f"{self.url}login?key={key}", expiresAt=until)

    def handle(self, request: AgentRequest) -> _Reply:
        """Answer one request; it never raises."""
        try:
            return self._answer(request)
        except Exception:  # noqa: BLE001 - one request must not end a connection; its text could quote what others sent
            return _text_reply(500, "the page failed to answer")

    def _answer(self, request: AgentRequest) -> _Reply:
        refusal = refuse_headers(request.headers, self._hosts)
        if refusal is not None:
            return _text_reply(refusal.status, refusal.text)
        if request.method not in (b"GET", b"HEAD"):
            return _text_reply(405, "this page is only read", b"allow: GET, HEAD\r\n")
        return self._route(
            request, _read_address(request.path.decode("latin-1"), request.query.decode("latin-1"))
        )

    def _route(self, request: AgentRequest, address: _Address) -> _Reply:
        if address.path.startswith(_STATIC):
            return _static(address.path.removeprefix(_STATIC))
        if address.path == "/login":
            return self._log_in(request, address.query.get("key", ""))
        if not self._is_allowed(request):
            text = "This page is for users who may manage the agent. Type this on its machine, and open the link:"
            return _notice(401, "You need a link", text, self._command)
        if address.path == "/events":
            return self._follow(request, address.query.get("view", "/"))
        return self._show(address)

    @property
    def _cookie(self) -> str:
        # Cookies are the same for all ports of a host, so that each agent needs a name of its own.
        return f"keyferry-page-{self._address.port}"

    @property
    def _command(self) -> str:
        return shlex.join(("keyferry", "agent", "page", *self._source.socket_options))

    def _is_allowed(self, request: AgentRequest) -> bool:
        key = cookie_of(request.headers, self._cookie)
        caller = self._access.find_caller(key, _peer_uid(request)) if key else None
        # Rights may have ended with a reload.
        return caller is not None and self._may_manage(caller)

    def _log_in(self, request: AgentRequest, key: str) -> AgentReply:
        if request.method == b"HEAD":
            return _text_reply(405, "a link is opened with GET", b"allow: GET\r\n")
        opened = self._access.open_session(key, _peer_uid(request))
        if isinstance(opened, LinkProblem):
            return _notice(403, "This link does not open the page", _LINK_PROBLEMS[opened], self._command)
        cookie = f"{self._cookie}={opened}; Max-Age={SESSION_SECONDS}; Path=/; HttpOnly; SameSite=Strict"
        return _text_reply(303, "", f"location: /\r\nset-cookie: {cookie}\r\n".encode())

    def _follow(self, request: AgentRequest, view: str) -> AgentReply:
        if self._hub.is_full:
            return _text_reply(503, "too many pages follow this agent", b"retry-after: 10\r\n")
        if not view.startswith("/"):
            return _text_reply(404, "there is no such view")
        return AgentReply(
            status=200,
            body=b"",
            content_type=_EVENTS,
            headers=SECURITY_HEADERS,
            follow=lambda sink: self._hub.follow(view, sink, lambda: self._is_allowed(request)),
        )

    async def _show(self, address: _Address) -> AgentReply:
        try:
            view = await self._render(address, time.monotonic())
        except Exception:  # noqa: BLE001 - as above
            return _notice(500, "This view failed", "The agent works on. Please report this.", "")
        if view is None:
            return _notice(404, "Not found", "There is no such page.", "")
        return _html_reply(200 if view.is_found else 404, view.html)

    async def _render_sections(self, view: str) -> dict[str, str] | None:
        path, _, query = view.partition("?")
        try:
            found = await self._render(_read_address(path, query), time.monotonic() - _FRESH_SECONDS)
        except Exception:  # noqa: BLE001 - as above
            return None
        return None if found is None else found.sections

    def _forget(self) -> None:
        """Drop what is no longer fresh: it has the providers of its time, and their caches."""
        if self._rendering.locked() or self._last is None:
            return
        if time.monotonic() - self._last[0] > _FRESH_SECONDS:
            self._last = None
            if not len(self._hub):
                self._builder.forget()

    async def _render(self, address: _Address, since: float) -> RenderedView | None:
        """Render a view of an instant that is not before *since*."""
        # One at a time, so that lookups have the rest of the machine; who has waited shares what was just made.
        async with self._rendering:
            last = self._last
            if last is None or last[0] < since:
                now, snapshot = time.monotonic(), self._source.take()
                last = self._last = now, snapshot, await asyncio.to_thread(self._builder.build, snapshot)
            return await asyncio.to_thread(_render_address, last[1], last[2], address)


def _render_address(snapshot: PageSnapshot, model: PageModel, address: _Address) -> RenderedView | None:
    explained, query = None, address.query
    if address.path == "/explain" and query.get("image", "").strip():
        image, account = query["image"].strip(), query.get("account", "").strip()
        explained = explain_cached(snapshot, image, account)
    return render_view(model, address.path, query, explained=explained)


def _peer_uid(request: AgentRequest) -> int | None:
    return None if request.caller.uid == UNKNOWN_UID else request.caller.uid


def _static(name: str) -> AgentReply:
    found = static_file(name)
    if found is None:
        return _text_reply(404, "there is no such file")
    return AgentReply(status=200, body=found[0], content_type=found[1].encode(), headers=SECURITY_HEADERS)


# Those without a link get the same few again and again.
@lru_cache(maxsize=32)
def _notice(status: int, title: str, text: str, command: str) -> AgentReply:
    return _html_reply(status, render_notice(title, text, command))


def _html_reply(status: int, html: str) -> AgentReply:
    return AgentReply(
        status=status, body=html.encode("utf-8", "replace"), content_type=_HTML, headers=SECURITY_HEADERS
    )


def _text_reply(status: int, text: str, more: bytes = b"") -> AgentReply:
    return AgentReply(
        status=status, body=f"{text}\n".encode(), content_type=_TEXT, headers=SECURITY_HEADERS + more
    )
