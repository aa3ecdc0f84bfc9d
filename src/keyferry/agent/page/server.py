"""The page's server: who may see it is checked first, then a view is rendered from the agent's state, off the loop."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Awaitable, Callable, Container
from functools import lru_cache

from keyferry._core.values import Value, replace
from keyferry._net.forms import decode_query, decode_text
from keyferry._net.listen_address import ListenAddress, parse_listen_address
from keyferry.agent.access import Caller
from keyferry.agent.connection import ConnectionTable
from keyferry.agent.message import AgentReply, AgentRequest, reply_document, reply_status
from keyferry.agent.page.access import LINK_SECONDS, SESSION_SECONDS, LinkProblem, PageAccess
from keyferry.agent.page.connection import UNKNOWN_UID, listen
from keyferry.agent.page.events import EventHub
from keyferry.agent.page.explanation import explain_cached
from keyferry.agent.page.guard import SECURITY_HEADERS, cookie_of, own_hosts, refuse_headers
from keyferry.agent.page.model import ModelBuilder
from keyferry.agent.page.snapshot import PageSnapshot, PageSource
from keyferry.agent.sockets import listen_at
from keyferry.api.meta import format_time
from keyferry.page.model import PageModel
from keyferry.page.render import RenderedView, render_notice, render_view, static_file

__all__ = ["PageServer"]

_SECOND = 1_000_000_000
_MOST_CONNECTIONS = 256
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

_Reply = AgentReply | Awaitable[AgentReply]


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
        self._connections = ConnectionTable(_MOST_CONNECTIONS, time.monotonic)
        self._hub = EventHub(self._render_sections)
        self._hosts: frozenset[str] = frozenset()
        self._server: asyncio.Server | None = None
        self._builder = ModelBuilder()
        self._turn = asyncio.Lock()
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
        self._server = await listen(bound, self._connections, self.handle)

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
            retry_after_seconds=0,
            decision=None,
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
        if self._turn.locked() or self._last is None:
            return
        if time.monotonic() - self._last[0] > _FRESH_SECONDS:
            self._last = None
            if not len(self._hub):
                self._builder.forget()

    async def _render(self, address: _Address, since: float) -> RenderedView | None:
        """Render a view of an instant that is not before *since*."""
        # One at a time, so that lookups have the rest of the machine; who has waited shares what was just made.
        async with self._turn:
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
