"""The agent's page, served by a real agent: off unless asked for, opened by a link, live, and without effect."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from keyferry.agent.access import Caller
from keyferry.agent.connection import STEP_SECONDS, ConnectionTable
from keyferry.agent.message import AgentReply, AgentRequest, EventSink
from keyferry.agent.page.access import (
    LINK_SECONDS,
    SESSION_SECONDS,
    LinkProblem,
    PageAccess,
    cookie_of,
    loopback_uid,
    own_hosts,
    refuse_headers,
)
from keyferry.agent.page.server import PageConnection
from support.agent_here import agent_here
from support.agents import Agent, make_token
from support.commands import run_in_process
from support.loops import in_loop
from support.page import VIEWS, PageClient, log_in, make_link, page_host
from support.parts import lacking
from support.plugins import (
    IMAGE,
    PLUGIN,
    REGISTRY,
    Node,
    provider_entry,
    write_config,
)

ANYWHERE = "127.0.0.1:0"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent with a page; each test uses images of its own."""
    node = Node(tmp_path_factory.mktemp("node"))
    node.recording("Image")
    write_config(node.config, [provider_entry()])
    with agent_here(node, "--page", ANYWHERE) as running:
        yield running


@pytest.fixture(scope="module")
def client(agent: Agent) -> PageClient:
    """A browser that has opened a link."""
    return log_in(agent)


def wait_for(events: Iterator[tuple[str, dict[str, str]]], section: str, text: str) -> None:
    """Read events until a part of the view has a text."""
    for name, sections in events:
        if name == "sections" and text in sections.get(section, ""):
            return
    raise AssertionError(f"{text!r} never came")


def test_there_is_no_page_unless_it_is_asked_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.recording()
    with agent_here(node) as agent:
        assert (agent.status["page"], agent.status["pageProblem"]) == (None, "")
        done = run_in_process("agent", "page", "--socket", agent.socket)
    assert (done.returncode, done.stdout) == (3, "")
    assert "start it with --page 127.0.0.1:7475" in done.stderr


def test_the_command_prints_a_link_that_opens_the_page(agent: Agent) -> None:
    done = run_in_process("agent", "page", "--socket", agent.socket)
    host = page_host(agent)
    assert done.returncode == 0
    assert done.stdout.startswith(f"http://{host}/login?key=")
    assert "works once, until" in done.stderr
    opened = PageClient(host).ask(done.stdout.strip().removeprefix(f"http://{host}"))
    assert (opened.status, opened.headers["location"]) == (303, "/")
    assert f" page=http://{host}/ " in agent.log
    assert f"made a link to the page uid={os.geteuid()}" in agent.log
    shown = run_in_process("agent", "status", "--socket", agent.socket).stdout
    assert f"'keyferry agent page --socket {agent.socket}' prints a link to it" in " ".join(shown.split())
    shown = run_in_process("agent", "status", KEYFERRY_AGENT=agent.socket).stdout
    assert f"http://{host}/; 'keyferry agent page' prints a link to it" in " ".join(shown.split())


def test_every_view_is_served_and_none_runs_a_plugin(agent: Agent, client: PageClient) -> None:
    """Nor does one count as a request, or as a hit of the cache."""
    agent.look_up(IMAGE)
    before = agent.status
    for view in (*VIEWS, "/explain?image=registry.example/never/asked:v1"):
        assert client.ask(view).status == 200
        assert client.ask(view, "HEAD").status == 200
    after = agent.status
    assert after["providers"] == before["providers"]
    assert after["callers"] == before["callers"]
    text = client.text("/explain?image=registry.example/never/asked:v1")
    assert "Would run the plugin" in text


def test_replies_are_for_this_browser_alone(client: PageClient) -> None:
    for view in ("/", "/static/page.css", "/nothing", "/events"):
        headers = (client if view != "/events" else PageClient(client.host)).ask(view).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'; ")
        assert headers["content-security-policy"].endswith("; frame-ancestors 'none'")
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_decision_is_shown_with_who_made_it_and_why(agent: Agent, client: PageClient) -> None:
    agent.look_up("registry.example/shown/run:v1")
    agent.look_up("registry.example/shown/run:v1")
    agent.look_up("elsewhere.example/shown/other:v1")
    token = make_token(time.time() + 600)
    account = {"namespace": "ns", "name": "builder", "uid": "u"}
    agent.look_up("registry.example/shown/account", serviceAccountToken=token, serviceAccount=account)
    agent.look_up("registry.example/shown/named", provider=PLUGIN)
    agent.ask("POST", "/v1/lookup", {"registry": REGISTRY})
    agent.ask(
        "POST",
        "/v1/evict",
        {"image": "registry.example/shown/run:v1", "username": "user", "password": "pass"},
    )
    text = client.text("/decisions")
    for words in (
        *(
            "registry.example/shown/run:v1",
            "the plugin was run",
            "from the cache",
            "no provider matches the image",
        ),
        *("ns/builder", "it is dropped", os.path.realpath(f"/proc/{os.getpid()}/exe")),
    ):
        assert words in text
    assert token not in text
    assert "ns/builder" in str(client.text("/explain")) + text


def test_a_provider_names_the_decisions_in_which_it_took_part(tmp_path: Path) -> None:
    """Whoever was asked for: all providers, this one, or a registry; from a run, from the cache, or in vain."""
    node = Node(tmp_path)
    node.recording()
    node.shell("exit 1", "broken")
    other = provider_entry("other", matchImages=["other.example"])
    broken = provider_entry("broken", matchImages=["broken.example", f"{REGISTRY}/both"])
    node.recording(name="other", auth={"other.example": ("user", "pass")})
    write_config(node.config, [provider_entry(), other, broken])
    with agent_here(node, "--page", ANYWHERE) as agent:
        client = log_in(agent)
        assert "No recent decision names this provider" in client.text(f"/providers/{PLUGIN}")
        agent.look_up(f"{REGISTRY}/run:v1")
        agent.look_up(f"{REGISTRY}/cached:v1")
        agent.look_up(f"{REGISTRY}/both:v1")
        agent.look_up("broken.example/app:v1")
        agent.look_up("elsewhere.example/app:v1")
        agent.ask("POST", "/v1/lookup", {"registry": "other.example"})
        shown = {
            name: set(_decided(client.text(f"/providers/{name}"))) for name in (PLUGIN, "other", "broken")
        }
        assert shown == {
            PLUGIN: {f"{REGISTRY}/{each}:v1" for each in ("run", "cached", "both")},
            "other": {"other.example"},
            "broken": {f"{REGISTRY}/both:v1", "broken.example/app:v1"},
        }
        assert '<a href="/providers/broken">' in client.text("/decisions/3")


def _decided(view: str) -> list[str]:
    """The images of the decisions on the view of a provider."""
    return re.findall(r'<li id="decision-\d+" .*?<bdi class="middle" title="([^"]+)"', view, re.DOTALL)


def test_who_follows_sees_a_decision_and_a_broken_reload_come_and_go(
    agent: Agent, client: PageClient
) -> None:
    good = agent.node.config.read_text()
    with client.follow("/") as events:
        name, first = next(events)
        assert (name, "All is well" in first["health"]) == ("sections", True)
        agent.node.config.write_text("{")
        wait_for(events, "health", "The new config is refused")
        agent.node.config.write_text(good)
        wait_for(events, "health", "All is well")


def test_who_follows_a_view_gets_that_view(agent: Agent, client: PageClient) -> None:
    with client.follow("/explain?image=registry.example/followed:v1") as events:
        name, sections = next(events)
        assert name == "sections"
        assert "Would run the plugin" in str(sections)
        agent.look_up("registry.example/followed:v1")
        assert "Would answer from the cache until" in str(next(events))


def test_a_stop_is_told_to_who_follows(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.recording()
    with agent_here(node, "--page", ANYWHERE) as agent, log_in(agent).follow("/") as events:
        assert next(events)[0] == "sections"
        agent.stop()
        assert [name for name, _ in events] == ["gone"]


def test_a_successor_takes_the_page_over_at_the_same_port(tmp_path: Path) -> None:
    """The old process closes its page; its cookies are not the successor's."""
    node = Node(tmp_path)
    node.recording()
    with agent_here(node, "--page", ANYWHERE) as first:
        client = log_in(first)
        with client.follow("/") as events:
            assert next(events)[0] == "sections"
            with agent_here(node, "--page", client.host) as second:
                assert "gone" in [name for name, _ in events]
                assert client.ask("/").status == 401
                assert log_in(second).ask("/").status == 200


def test_a_port_that_is_taken_stops_no_lookup(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.recording()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with agent_here(node, "--page", address) as agent:
            assert agent.look_up(IMAGE).status == 200
            problem = agent.status["pageProblem"]
            done = run_in_process("agent", "page", "--socket", agent.socket)
    assert done.returncode == 3
    assert problem == f"page: cannot listen at {address}: address already in use"
    assert f"the page is not served: {problem}" in done.stderr


def test_the_port_of_an_agent_with_another_socket_is_taken(tmp_path: Path) -> None:
    """Only the agent that takes the place of the first one shares its port, for as long as both are there."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    nodes = [Node(tmp_path / "first"), Node(tmp_path / "second")]
    for node in nodes:
        node.recording()
    with agent_here(nodes[0], "--page", "127.0.0.1:0") as first:
        address = first.status["page"].removeprefix("http://").rstrip("/")
        with agent_here(nodes[1]), agent_here(nodes[1], "--page", address) as second:
            problem = f"page: cannot listen at {address}: address already in use"
            assert (second.status["page"], second.status["pageProblem"]) == (None, problem)
            assert {log_in(first).ask("/").status for _ in range(8)} == {200}


@pytest.mark.parametrize("address", ["0.0.0.0:0", "localhost:80", "127.0.0.1"])
def test_only_loopback_is_served(tmp_path: Path, address: str) -> None:
    node = Node(tmp_path)
    done = run_in_process("agent", "run", "--page", address, "--config", str(node.config), "--bin-dir", "/")
    assert done.returncode == 3
    assert "flag --page: found" in done.stderr
    assert "expected 'off' or a loopback address and a port" in done.stderr


def test_a_link_is_not_spent_by_a_look_at_it(agent: Agent) -> None:
    """Programs that look at links before people do send HEAD."""
    link, client = make_link(agent), PageClient(page_host(agent))
    assert client.ask(link, "HEAD").status == 405
    assert client.ask(link).status == 303


ROOT, USER = Caller(uid=0, gids=frozenset()), Caller(uid=1000, gids=frozenset({1000}))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def open_session(access: PageAccess, caller: Caller, peer: int | None = 0) -> str:
    session = access.open_session(access.make_link(caller), peer)
    assert not isinstance(session, LinkProblem)
    return session


def test_a_late_link_and_one_of_another_process_open_no_session() -> None:
    clock = Clock()
    access = PageAccess(clock)
    key = access.make_link(ROOT)
    assert PageAccess(clock).open_session(key, 0) is LinkProblem.UNKNOWN
    clock.now += LINK_SECONDS + 1
    for _ in range(2):
        assert access.open_session(key, 0) is LinkProblem.LATE
    assert access.open_session("", 0) is LinkProblem.UNKNOWN


def test_a_session_ends() -> None:
    clock = Clock()
    access = PageAccess(clock)
    session = open_session(access, ROOT)
    clock.now += SESSION_SECONDS - 1
    assert access.find_caller(session, 0) == ROOT
    clock.now += 2
    assert access.find_caller(session, 0) is None


@pytest.mark.parametrize(("peer", "is_open"), [(1000, True), (0, True), (None, True), (1001, False)])
def test_the_link_of_a_user_is_for_that_user(peer: int | None, *, is_open: bool) -> None:
    """Others cannot even use it up; where the kernel does not tell who connects, the key is enough."""
    access = PageAccess()
    key = access.make_link(USER)
    opened = access.open_session(key, peer)
    assert (opened is LinkProblem.OTHER_USER) is not is_open
    if not is_open:
        assert access.find_caller(str(access.open_session(key, 1000)), 1000) == USER


@pytest.mark.parametrize("peer", [1001, None])
def test_a_stolen_cookie_is_of_no_use_to_another_user(peer: int | None) -> None:
    access = PageAccess()
    session = open_session(access, ROOT, 1000)
    assert access.find_caller(session, peer) is None
    assert access.find_caller(session[:-1], 1000) is None
    assert access.find_caller(session, 1000) == ROOT


def test_links_and_sessions_are_bounded_and_the_oldest_give_way() -> None:
    """So are the links that were used, about which there is no word after a while."""
    access = PageAccess()
    first, used = access.make_link(ROOT), access.make_link(ROOT)
    session = access.open_session(used, 0)
    sizes = []
    for _ in range(2):
        for _ in range(500):
            access.make_link(ROOT)
            open_session(access, ROOT)
        sizes.append(len(pickle.dumps(access)))
    assert {access.open_session(key, 0) for key in (first, used)} == {LinkProblem.UNKNOWN}
    assert access.find_caller(str(session), 0) is None
    assert sizes[0] == sizes[1]


def test_no_key_is_kept() -> None:
    access = PageAccess()
    link, session = access.make_link(ROOT), open_session(access, ROOT)
    kept = pickle.dumps(access)
    assert [key for key in (link, session) if key.encode() in kept] == []
    assert len(link) >= 43  # 256 bits, in base64


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # Its own names, in the address bar and from its own pages.
        *(({"host": host}, 200) for host in ("127.0.0.1:7475", "localhost:7475", "LocalHost:7475")),
        ({"host": "localhost:7475", "origin": "http://localhost:7475", "sec-fetch-site": "same-origin"}, 200),
        ({"host": "localhost:7475", "sec-fetch-site": "none"}, 200),
        # Any other: a name that leads here by a change of its address has the same origin as its host.
        ({}, 421),
        *(
            ({"host": host, "origin": f"http://{host}"}, 421)
            for host in (
                *("", "127.0.0.1", "localhost", "127.0.0.1:80", "evil.example:7475"),
                *("127.0.0.1.evil.example:7475", "127.0.0.1:7475, 127.0.0.1:7475", "127.0.0.2:7475"),
                *("[::1]:7475", "127.0.0.1:7475@evil.example"),
            )
        ),
        *(
            ({"host": "127.0.0.1:7475", "origin": origin}, 403)
            for origin in (
                *("null", "", "https://127.0.0.1:7475", "http://127.0.0.1:7476", "http://localhost:7475"),
                "http://evil.example",
            )
        ),
        # Another port of this machine is the same site.
        *(
            ({"host": "127.0.0.1:7475", "sec-fetch-site": site}, 403)
            for site in ("cross-site", "same-site", "Same-Origin", "none, none")
        ),
    ],
)
def test_only_requests_of_its_own_pages_and_of_the_address_bar_are_let_in(
    headers: dict[str, str], status: int
) -> None:
    given = {name.encode(): value.encode() for name, value in headers.items()}
    refusal = refuse_headers(given, own_hosts("127.0.0.1", 7475))
    assert (200 if refusal is None else refusal.status) == status


def test_hosts_follow_the_address() -> None:
    assert own_hosts("::1", 1) == {"[::1]:1", "localhost:1"}
    assert own_hosts("127.0.0.1", 80) == {"127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"}


@pytest.mark.parametrize(
    ("cookie", "value"),
    [("a=1", "1"), ("b=2; a=1", "1"), ("a=1;a=2", "1"), ("aa=1", ""), ("", ""), ("a", ""), ("a=x=y", "x=y")],
)
def test_a_cookie_is_found_by_its_name(cookie: str, value: str) -> None:
    assert cookie_of({b"cookie": cookie.encode()}, "a") == value


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent needs Linux")


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_our_own_connection_is_ours(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as listener, socket.socket(family) as client:
        try:
            listener.bind((address, 0))
        except OSError:
            lacking("ipv6")
        listener.listen()
        client.connect(listener.getsockname())
        with listener.accept()[0] as accepted:
            assert loopback_uid(accepted) == os.geteuid()


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
            await settle()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and close what is late."""
        self.now += seconds
        self.table.sweep()

    def can_be_displaced(self) -> bool:
        """Whether a new client can take the place of the only one."""
        [found] = self.table.all()
        return found.is_silent


@in_loop
async def test_a_stream_goes_on_until_it_is_closed() -> None:
    world = World()
    async with world.connect() as (reader, writer):
        [sink] = world.sinks
        world.pass_time(1000)
        assert sink.write(b"data: 1\n\n")
        assert await reader.readuntil(b"\n\n") == b"data: 1\n\n"
        assert sink.write(b"data: 2\n\n")
        sink.close()
        assert await reader.read() == b"data: 2\n\n"
        writer.close()
        await settle()
        assert (world.gone, len(world.table), sink.write(b"more")) == (1, 0, False)


@in_loop
async def test_a_head_starts_no_stream() -> None:
    world = World()
    async with world.connect("HEAD"):
        assert world.sinks == []


@in_loop
async def test_what_a_client_sends_into_a_stream_is_not_read() -> None:
    world = World()
    async with world.connect() as (_, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n" * 100)
        await writer.drain()
        await settle()
        assert (len(world.sinks), len(world.table)) == (1, 1)


async def settle() -> None:
    """Let the loop go round many times, however busy the machine is."""
    for _ in range(20):
        await asyncio.sleep(0.001)


async def fill(sink: EventSink) -> int:
    """Write until the client has not read; return how many bytes it was."""
    written = 0
    while sink.write(PIECE):
        written += len(PIECE)
        assert written < 1 << 28
        await asyncio.sleep(0)
    return written


@in_loop
async def test_who_does_not_read_gets_nothing_more_and_is_cut_off() -> None:
    world = World()
    async with world.connect():
        assert not world.can_be_displaced()
        await fill(world.sinks[0])
        assert world.can_be_displaced()
        world.pass_time(STEP_SECONDS + 1)
        await settle()
        assert (world.gone, len(world.table)) == (1, 0)


@in_loop
async def test_who_reads_again_in_time_goes_on() -> None:
    world = World()
    async with world.connect() as (reader, _):
        [sink] = world.sinks
        await reader.readexactly(await fill(sink))
        await settle()
        assert sink.write(b"data: more\n\n")
        assert await reader.readexactly(12) == b"data: more\n\n"
        world.pass_time(1000)
        assert sink.write(b"data: more\n\n")
