"""The agent's port for Prometheus and for probes, if one is asked for: figures and health, for everybody who connects.

Only ``/metrics``, ``/healthz`` and ``/readyz`` are there, and only to be read. Nothing on them is secret. On loopback a
request has to name an IP address or localhost as its host, so that no web page can read them under a name of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from functools import partial
from ipaddress import ip_address

from keyferry._net.listen_address import ListenAddress, parse_listen_address
from keyferry.agent.access import Caller
from keyferry.agent.connection import AgentConnection, ConnectionTable
from keyferry.agent.message import AgentReply, AgentRequest
from keyferry.agent.sockets import BACKLOG, listen_at

_TEXT = b"text/plain; charset=utf-8"
_MAX_CONNECTIONS = 64
_ACCEPTED_AT_ONCE = 8
# Nobody needs figures more often, and making them takes the agent's time.
_FRESH_SECONDS = 1.0
_ANYBODY = Caller(uid=-1, gids=frozenset())


class MetricsPort:
    """A listening TCP socket and its connections, with limits of their own."""

    def __init__(
        self,
        text: str,
        figures: Callable[[], AgentReply],
        is_stopping: Callable[[], bool],
        shared: Container[ListenAddress] = (),
    ) -> None:
        """Listen at the address in *text*, which settings have checked; raise EnvironmentProblem if it cannot."""
        address = parse_listen_address(text)
        assert address is not None  # noqa: S101 - checked where settings are read
        self._is_loopback = address.is_loopback
        self._socket = listen_at(address, "metrics", BACKLOG, is_shared=address in shared)
        self._connections = ConnectionTable(_MAX_CONNECTIONS, time.monotonic)
        self._figures = figures
        self._is_stopping = is_stopping
        self._kept: tuple[float, AgentReply] | None = None
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where it listens, with the port that was chosen if none was asked for."""
        host, port, *_ = self._socket.getsockname()
        return str(ListenAddress(host=host, port=port, is_loopback=self._is_loopback))

    async def serve(self) -> None:
        """Accept connections from now on."""
        loop = asyncio.get_running_loop()
        connect = partial(_MetricsConnection, self._connections, self)
        # As for the socket: a flood of silent clients does not take the place of one whose request has arrived.
        self._server = await loop.create_server(connect, sock=self._socket, backlog=_ACCEPTED_AT_ONCE)
        self._socket.listen(BACKLOG)

    def sweep(self) -> None:
        """Close connections whose deadline has passed."""
        self._connections.sweep()

    def stop_listening(self) -> None:
        """Accept no more connections, which go to a process that took the agent's place, if there is one."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Close everything at once: figures can be asked for again, elsewhere."""
        self.stop_listening()
        self._socket.close()
        for connection in self._connections.all():
            connection.abort()

    def answer(self, request: AgentRequest, host: bytes) -> AgentReply:
        """Answer one request, whose header ``Host`` is *host*."""
        if self._is_loopback and not _is_own_host(host.decode("latin-1")):
            return _text(421, "the Host header of a request has to be an IP address or localhost")
        reply = self._reply(request.path)
        if reply is not None and request.method not in (b"GET", b"HEAD"):
            return _text(405, "this path is only read")
        return reply or _text(404, "there are /metrics, /healthz and /readyz")

    def _reply(self, path: bytes) -> AgentReply | None:
        if path == b"/metrics":
            return self._fresh_figures()
        if path == b"/healthz":
            return _text(200, "ok")
        if path == b"/readyz":
            return _text(503, "the agent stops") if self._is_stopping() else _text(200, "ok")
        return None

    def _fresh_figures(self) -> AgentReply:
        now = time.monotonic()
        if self._kept is None or now - self._kept[0] >= _FRESH_SECONDS:
            self._kept = now, self._figures()
        return self._kept[1]


class _MetricsConnection(AgentConnection):
    """One scraper or prober; nobody knows who it is."""

    max_body_bytes = 0

    def __init__(self, table: ConnectionTable, port: MetricsPort) -> None:
        super().__init__(table, self._answer, identify=lambda _: _ANYBODY)
        self._port = port

    def _reset(self) -> None:
        super()._reset()
        self._host = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if name.lower() == b"host":
            self._host = value

    def _answer(self, request: AgentRequest) -> AgentReply:
        return self._port.answer(request, self._host)


def _is_own_host(host: str) -> bool:
    """Return whether a Host header is an IP address or localhost; a name could be of anybody's domain."""
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name = host
    if name.lower() == "localhost":
        return True
    try:
        ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
    except ValueError:
        return False
    return True


def _text(status: int, text: str) -> AgentReply:
    return AgentReply(status=status, body=text.encode() + b"\n", content_type=_TEXT)
