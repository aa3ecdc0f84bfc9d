"""The agent's process: it listens, serves, watches its configs, renews answers, and stops without losing a request."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import time
from collections.abc import Coroutine, Iterator, Mapping

from keyferry._core.clock import monotonic_ns
from keyferry.agent.access import Caller
from keyferry.agent.connection import AgentConnection, ConnectionTable
from keyferry.agent.health import judge_health
from keyferry.agent.journal import Journal
from keyferry.agent.log import AgentLog, LogLevel, loop_error_logger, take_asyncio_log
from keyferry.agent.management import (
    AgentAbsentError,
    AgentUnavailableError,
    PredecessorPorts,
    ask_for_document,
    hand_over_reply,
    status_fields,
    take_over_entries,
)
from keyferry.agent.message import AgentReply, reply_document, reply_status
from keyferry.agent.metrics_port import MetricsPort
from keyferry.agent.refresh import Refresher
from keyferry.agent.service import AgentService, Management
from keyferry.agent.settings import Given
from keyferry.agent.sockets import BACKLOG, Listener, bind_socket, inherit_sockets, named_peer_of, peer_of
from keyferry.agent.state import AgentState, Reloader
from keyferry.api.meta import format_time
from keyferry.errors import EnvironmentProblem
from keyferry.images.lookup import cancel_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.agent.page.server import PageServer

_SECOND = 1_000_000_000
_LOOK_SECONDS = 0.5
_SWEEP_SECONDS = 1.0
# Clients that have connected before the socket was removed are accepted in this time.
_LAST_CLIENTS_SECONDS = 0.1
_SILENT_CLIENTS_SECONDS = 0.5
# A lookup whose plugin was killed runs the next one, which is killed as well.
_KILLED_PLUGINS_SECONDS = 5.0
_ACCEPTED_AT_ONCE = 32
# Descriptors for plugins, files and logs, beside the connections.
_OTHER_DESCRIPTORS = 256


def run_agent(given: Given, log: AgentLog) -> None:
    """Run the agent until it is told to stop; raise ConfigError or EnvironmentProblem if it cannot start."""
    process = AgentProcess(given, log)
    asyncio.run(process.run())
    # The requests have had their time: nobody waits for the plugins that still run, nor for renewals.
    left = cancel_runs()
    if left:
        log.write(LogLevel.WARNING, "killed plugins that still ran", number=left)
    patience = time.monotonic() + _KILLED_PLUGINS_SECONDS
    while left and time.monotonic() < patience:
        time.sleep(0.02)
        left = cancel_runs()


class AgentProcess(Management):
    """One agent, from its start to its end."""

    def __init__(self, given: Given, log: AgentLog) -> None:
        """Load the configs; raise ConfigError or EnvironmentProblem."""
        self._given = given
        self._log = log
        self._started_at = time.time()
        self._taken_over_at: float | None = None
        self._refresher = Refresher(log, 0)
        self._reloader = Reloader(given, log, self._refresher.note)
        self._apply_settings()
        settings = self._reloader.state.settings
        self._connections = ConnectionTable(_max_connections(settings.number("connections")), time.monotonic)
        journal = Journal(is_on=settings.text("page") != "off")
        self._service = AgentService(lambda: self.state, self._refresher, self, log, journal=journal)
        self._page: PageServer | None = None
        self._page_problem = ""
        self._notifier = SystemdNotifier(given.environ)
        self._listeners: list[Listener] = []
        self._predecessor_ports = PredecessorPorts()
        self._metrics_port: MetricsPort | None = None
        self._reload_lock = asyncio.Lock()

    @property
    def state(self) -> AgentState:
        """The state in force."""
        return self._reloader.state

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(loop_error_logger(self._log))
        take_asyncio_log(self._log)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        reloads: set[asyncio.Task[AgentReply]] = set()

        def reload() -> None:
            task = loop.create_task(self.reload())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        loop.add_signal_handler(signal.SIGHUP, reload)
        await self._look_for_predecessor()
        self._metrics_port = await self._open_metrics_port()
        servers = await self._listen()
        await self._open_page()
        tasks = [asyncio.create_task(each) for each in self._duties()]
        self._notifier.ready()
        self._log.write(
            LogLevel.INFO,
            "ready",
            socket=" ".join(each.path for each in self._listeners),
            providers=len(self.state.providers.providers),
            page="" if self._page is None else self._page.url,
            metrics=None if self._metrics_port is None else self._metrics_port.address,
            uid=os.geteuid(),
            pid=os.getpid(),
        )
        try:
            await stop.wait()
        finally:
            await self._stop(servers, tasks)

    def _duties(self) -> Iterator[Coroutine[None, None, None]]:
        yield self._refresher.run(lambda: self.state.providers)
        yield self._sweep()
        yield self._watch()
        if self._page is not None:
            yield self._page.run()
        if self._notifier.watchdog_seconds:
            yield self._tell_alive()

    async def _look_for_predecessor(self) -> None:
        """Find out which ports an agent has whose place is taken; with a socket of systemd it has ended before."""
        self._listeners = inherit_sockets(os.environ, os.getpid())
        settings = self.state.settings
        has_port = any(settings.text(name) != "off" for name in ("metrics", "page"))
        if has_port and not self._listeners:
            await asyncio.to_thread(self._predecessor_ports.find, settings.text("socket"))

    async def _listen(self) -> list[asyncio.Server]:
        """Take over the cache of an agent that is there, then its place."""
        settings = self.state.settings
        if not self._listeners:
            path = settings.text("socket")
            if settings.is_on("handOver"):
                await asyncio.to_thread(self._take_over, path)
            group = settings.number("socketGroup") if "socketGroup" in settings.values else None
            self._listeners = [bind_socket(path, int(settings.text("socketMode"), 8), group)]
        return [await self._serve(each.socket) for each in self._listeners]

    async def _open_metrics_port(self) -> MetricsPort | None:
        """Listen for Prometheus if that is asked for, before anything of an agent that is there is taken over."""
        address = self.state.settings.text("metrics")
        if address == "off":
            return None
        port = MetricsPort(address, self.metrics, lambda: self._service.is_stopping, self._predecessor_ports)
        await port.serve()
        return port

    async def _serve(self, listening: socket.socket) -> asyncio.Server:
        # The names of programs are for the journal alone.
        identify = named_peer_of if self._service.journal.is_on else peer_of

        def connect() -> AgentConnection:
            return AgentConnection(self._connections, self._service.handle, self._service.may_ask, identify)

        loop = asyncio.get_running_loop()
        # For asyncio this is also how many clients are accepted before their requests are read. With few at a time,
        # a flood of silent clients does not take the place of one that has just connected.
        # Not create_unix_server: from Python 3.13 on it removes the socket at its end, and systemd's is not ours.
        server = await loop.create_server(connect, sock=listening, backlog=_ACCEPTED_AT_ONCE)
        listening.listen(BACKLOG)
        return server

    async def _open_page(self) -> None:
        """Serve the page, if it is asked for; lookups do not depend on it."""
        address = self.state.settings.text("page")
        if address == "off":
            return
        try:
            from keyferry.agent.page.model import PageSource
            from keyferry.agent.page.server import PageServer

            source = PageSource(
                self._reloader,
                self._refresher,
                self._service.usage,
                self._service.journal,
                sockets=lambda: [each.path for each in self._listeners],
                taken_over_at=lambda: self._taken_over_at,
            )
            page = PageServer(
                address,
                source,
                lambda caller: self.state.policy.rights_of(caller).may_manage,
                self._predecessor_ports,
            )
            await page.start()
        except (ImportError, EnvironmentProblem) as error:
            self._page_problem = str(error)
            self._service.journal.is_on = False
            self._log.write(LogLevel.ERROR, "the page is not served", problem=error)
            return
        self._page = page

    def _take_over(self, path: str) -> None:
        try:
            document = ask_for_document(path, "POST", "/v1/handover", only_uid=os.geteuid())
        except AgentAbsentError:
            return
        except AgentUnavailableError as error:
            self._log.write(LogLevel.INFO, "no cache is taken over", reason=error)
            return
        taken = take_over_entries(self.state.providers, document, monotonic_ns())
        self._log.write(LogLevel.INFO, "took over the cache", entries=taken)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._connections.sweep()
            self._log.sweep()
            if self._metrics_port is not None:
                self._metrics_port.sweep()
            # At its end, the agent removes its socket itself.
            is_gone = not all(each.is_in_place() for each in self._listeners)
            if is_gone and self._taken_over_at is None and not self._service.is_stopping:
                self._taken_over_at = time.time()
                self._refresher.is_on = False
                if self._metrics_port is not None:
                    self._metrics_port.stop_listening()
                self._log.write(
                    LogLevel.WARNING, "another process has the socket now; connected clients are still served"
                )
                if self._page is not None:
                    self._page.stop()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.state.settings.is_on("watch") and self._reloader.is_due():
                await self.reload()

    async def _tell_alive(self) -> None:
        while True:
            self._notifier.alive()
            await asyncio.sleep(self._notifier.watchdog_seconds)

    async def reload(self) -> AgentReply:
        """Read all configs again, while requests are served from the old ones."""
        async with self._reload_lock:
            self._notifier.reloading()
            before = {provider.name for provider in self.state.providers.providers}
            outcome = await asyncio.to_thread(self._reloader.load)
            if outcome.is_applied:
                self._apply_settings()
                self._connections.most = _max_connections(self.state.settings.number("connections"))
                after = {provider.name for provider in self.state.providers.providers}
                self._refresher.plan.forget(frozenset(before - after))
            self._notifier.ready()
        return reply_document(
            "ReloadResponse",
            200 if outcome.is_applied else 422,
            applied=outcome.is_applied,
            problems=list(outcome.problems),
            notes=list(outcome.notes),
            hash=self.state.providers.config_hash,
        )

    def _apply_settings(self) -> None:
        settings = self.state.settings
        self._log.configure(LogLevel(settings.text("logLevel")), is_json=settings.text("logFormat") == "json")
        self._refresher.is_on = settings.is_on("refreshAhead") and self._taken_over_at is None
        self._refresher.plan.idle_ns = settings.number("refreshIdle")

    def status(self) -> dict[str, object]:
        """Return the fields of the status document."""
        process: dict[str, object] = {
            "pid": os.getpid(),
            "uid": os.geteuid(),
            "gid": os.getegid(),
            "startedAt": format_time(int(self._started_at * _SECOND)),
            "sockets": [each.path for each in self._listeners],
            "socketActivated": any(each.is_inherited for each in self._listeners),
            "takenOver": self._taken_over_at is not None,
            "page": None if self._page is None else self._page.url,
            "pageProblem": self._page_problem,
            "metrics": None if self._metrics_port is None else str(self._metrics_port.address),
            "connections": {
                "open": len(self._connections),
                "most": self._connections.most,
                "displaced": self._connections.refused,
            },
        }
        now, now_ns = time.time(), monotonic_ns()
        health = judge_health(
            self.state,
            self._reloader.last,
            started=self._started_at,
            taken_over_at=self._taken_over_at,
            wall=lambda at_ns: now + (at_ns - now_ns) / _SECOND,
        )
        return status_fields(
            self._reloader, self._refresher, self._service.usage, health=health, process=process
        )

    def metrics(self) -> AgentReply:
        """Return the figures for Prometheus."""
        try:
            from keyferry.agent.figures import CONTENT_TYPE, render_figures
        except ImportError as error:
            return reply_status(501, "NotInstalled", str(error))
        figures = render_figures(self._reloader, self._refresher, self._service.usage, self._connections)
        return AgentReply(status=200, body=figures, content_type=CONTENT_TYPE)

    def hand_over(self, uid: int) -> AgentReply:
        """Return the cached answers for everybody to a process of this user, if it is the agent's own."""
        if uid != os.geteuid() or not self.state.settings.is_on("handOver"):
            return reply_status(403, "Forbidden", "the cache is handed over to the agent's own user alone")
        return hand_over_reply(self.state.providers, monotonic_ns())

    def page_link(self, caller: Caller) -> AgentReply:
        """Return a link to the page for this caller, or why there is none."""
        if self._page is not None:
            self._log.write(LogLevel.INFO, "made a link to the page", uid=caller.uid)
            return self._page.make_link(caller)
        if self._page_problem:
            return reply_status(503, "NoPage", f"the page is not served: {self._page_problem}")
        return reply_status(404, "NoPage", "the agent serves no page; start it with --page 127.0.0.1:7475")

    async def _stop(self, servers: list[asyncio.Server], tasks: list[asyncio.Task[None]]) -> None:
        """Take no more clients, answer those that are there, and end."""
        self._service.is_stopping = True
        self._notifier.stopping()
        self._log.write(LogLevel.INFO, "stopping", connections=len(self._connections))
        for each in self._listeners:
            each.remove()
        if self._page is not None:
            self._page.stop()
        # Clients that found the socket before it was removed are served.
        await asyncio.sleep(_LAST_CLIENTS_SECONDS)
        for server in servers:
            server.close()
        await self._end_connections()
        if self._page is not None:
            self._page.abort()
        if self._metrics_port is not None:
            self._metrics_port.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._log.sweep(is_last=True)
        self._log.write(LogLevel.INFO, "stopped")

    async def _end_connections(self) -> None:
        """Answer the requests that have arrived; clients that are silent are not waited for."""
        for connection in self._connections.all():
            connection.end()
        started = time.monotonic()
        patience = self.state.settings.number("stopTimeout") / _SECOND
        while len(self._connections) and (passed := time.monotonic() - started) < patience:
            await asyncio.sleep(0.02)
            for connection in self._connections.all():
                if connection.is_silent and passed > _SILENT_CLIENTS_SECONDS:
                    connection.abort()
        for connection in self._connections.all():
            connection.abort()


def _max_connections(wanted: int) -> int:
    """Raise this process' limit of descriptors for so many connections; return how many it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_DESCRIPTORS
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(min(wanted, soft - _OTHER_DESCRIPTORS), 8)


class SystemdNotifier:
    """Sends to the socket that systemd names in NOTIFY_SOCKET; does nothing without one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        interval, owner = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
        is_ours = owner in ("", str(os.getpid()))
        # Half of the time after which systemd acts.
        self.watchdog_seconds = (
            int(interval) / 1_000_000 / 2 if is_ours and interval.isdecimal() and self._address else 0.0
        )

    def ready(self) -> None:
        """Tell that requests are served, at the start and after a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Tell that a reload begins; `ready` follows, also if it fails."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def stopping(self) -> None:
        """Tell that the agent stops."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Tell that the event loop still runs."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # systemd's notation for an abstract address.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(message.encode(), address)
        except OSError:
            pass  # whoever started the agent does not listen; that is no reason to stop
