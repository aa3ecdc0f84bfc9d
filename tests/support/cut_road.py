"""A road to a server on which answers are cut off after so many bytes: ended, reset, or silent from there on."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from support.slow_road import running_road

ENDED, RESET, SILENT = "ended", "reset", "silent"
_PIECE = 1 << 16
_NO_LINGER = struct.pack("ii", 1, 0)


class CutRoad:
    """A forwarder of connections; each answer is cut after *cut_at* bytes, or never if that is None.

    *longest* is the length of the longest answer that came through.
    """

    def __init__(self, server: socket.socket, family: int, target: tuple[str, int] | str) -> None:
        self.cut_at: int | None = None
        self.way = ENDED
        self.longest = 0
        self._server = server
        self._family, self._target = family, target
        self._open: list[socket.socket] = []

    @property
    def host(self) -> str:
        """The address, as part of a URL."""
        return "{}:{}".format(*self._server.getsockname())

    def serve(self) -> None:
        """Accept connections until it is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                there = socket.socket(self._family)
                there.connect(self._target)
                self._open += [client, there]
                threading.Thread(target=self._send, args=(client, there), daemon=True).start()
                threading.Thread(
                    target=self._answer, args=(there, client, self.cut_at, self.way), daemon=True
                ).start()

    def close(self) -> None:
        """Close it, and every connection."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        for each in (self._server, *self._open):
            each.close()

    def _send(self, client: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            while piece := client.recv(_PIECE):
                there.sendall(piece)
            there.shutdown(socket.SHUT_WR)

    def _answer(self, there: socket.socket, client: socket.socket, cut_at: int | None, way: str) -> None:
        passed = 0
        with suppress(OSError):
            while (cut_at is None or passed < cut_at) and (piece := there.recv(_PIECE)):
                piece = piece if cut_at is None else piece[: cut_at - passed]
                passed += len(piece)
                self.longest = max(self.longest, passed)
                client.sendall(piece)
        if cut_at is not None and passed == cut_at and way == SILENT:
            return
        with suppress(OSError):
            if way == RESET and cut_at is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            else:
                client.shutdown(socket.SHUT_WR)
            # The other thread reads from it, and would keep it open.
            client.shutdown(socket.SHUT_RD)
        client.close()
        there.close()


@contextmanager
def cut_road(port: int) -> Iterator[CutRoad]:
    """Yield a road to a port of this machine for the length of a block."""
    server = socket.create_server(("127.0.0.1", 0))
    with running_road(CutRoad(server, socket.AF_INET, ("127.0.0.1", port))) as road:
        yield road


@contextmanager
def cut_road_to_socket(path: str, target: str) -> Iterator[CutRoad]:
    """Yield a road to the Unix socket *target*, which begins at the Unix socket *path*."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    with running_road(CutRoad(server, socket.AF_UNIX, target)) as road:
        yield road
