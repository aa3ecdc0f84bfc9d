"""A road to a registry on which answers travel slowly, and are counted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Protocol, TypeVar

_PIECE = 16 << 10


class ForwardingRoad:
    """A forwarder of connections to *port*; what happens on the way is a subclass's."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def is_idle(self) -> bool:
        """Whether every connection has ended, in both directions."""
        return not any(thread.is_alive() for thread in self._threads)

    def serve(self) -> None:
        """Accept connections until it is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                there = socket.create_connection(("127.0.0.1", self._to))
                self._open += [client, there]
                self.prepare(client, there)
                for way in ((client, there, False), (there, client, True)):
                    self._threads.append(threading.Thread(target=self._forward, args=way, daemon=True))
                    self._threads[-1].start()

    def close(self) -> None:
        """Close it, and every connection."""
        for each in (self._server, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def prepare(self, client: socket.socket, there: socket.socket) -> None:
        """Do what a new pair of connections needs; nothing by default."""

    def _forward(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        raise NotImplementedError


class SlowRoad(ForwardingRoad):
    """A road on which *received* bytes came from the port.

    Each connection is as fast as *bytes_per_second*, or as the machine if that is zero.
    """

    def __init__(self, port: int, bytes_per_second: int) -> None:
        super().__init__(port)
        self.bytes_per_second = bytes_per_second
        self.received = 0

    def _forward(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                target.sendall(piece)
                if is_answer:
                    with self._lock:
                        self.received += len(piece)
                    if self.bytes_per_second:
                        sleep(len(piece) / self.bytes_per_second)
            target.shutdown(socket.SHUT_WR)


class Road(Protocol):
    """A forwarder that serves until it is closed."""

    def serve(self) -> None:
        """Accept connections until it is closed."""

    def close(self) -> None:
        """Close it, and every connection."""


_Road = TypeVar("_Road", bound=Road)


@contextmanager
def slow_road(port: int, bytes_per_second: int) -> Iterator[SlowRoad]:
    """Yield a slow road to a port of this machine for the length of a block."""
    with running_road(SlowRoad(port, bytes_per_second)) as road:
        yield road


@contextmanager
def running_road(road: _Road) -> Iterator[_Road]:
    """Let a road serve for the length of a block."""
    thread = threading.Thread(target=road.serve, daemon=True)
    thread.start()
    try:
        yield road
    finally:
        road.close()
        thread.join()
