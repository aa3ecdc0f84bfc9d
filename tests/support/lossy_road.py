"""A road to a server that loses packets: the kernel drops them at random, and TCP sends them again.

What comes through is passed on a few bytes at a time, with a stop now and then, as after a loss.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import sleep

from support.parts import lacking
from support.slow_road import ForwardingRoad, running_road

# Of <linux/filter.h> and <asm/socket.h>; the number of dropped packets is the last of nine.
_ATTACH_FILTER, _MEMORY_INFO, _FIGURES = 26, 55, 9
_LOAD, _LOAD_LENGTH, _JUMP_GREATER, _RETURN, _RANDOM = 0x20, 0x80, 0x25, 0x06, 0xFFFFF000 + 56
_ALL = 0xFFFFFFFF
# Of TCP: what is longer has data, whose loss is noticed; one lost acknowledgement is not.
_MAX_HEADER = 60
# Requests go on as they come. Answers go on in droplets, and stop after so many.
_PIECE, _DROPLET, _STOP_AFTER, _STOP_SECONDS = 1 << 16, 7, 50, 0.02


def lose_packets(sock: socket.socket, share: float) -> None:
    """Let the kernel drop this share of the packets with data that arrive at a connection, at random."""
    steps = (
        (_LOAD_LENGTH, 0, 0, 0),
        (_JUMP_GREATER, 0, 2, _MAX_HEADER),
        (_LOAD, 0, 0, _RANDOM),
        (_JUMP_GREATER, 0, 1, int(share * _ALL)),
        (_RETURN, 0, 0, _ALL),
        (_RETURN, 0, 0, 0),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    sock.setsockopt(
        socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(steps), ctypes.addressof(program))
    )


def lost_packets(sock: socket.socket) -> int:
    """Return how many packets were dropped that arrived at a connection."""
    figures = sock.getsockopt(socket.SOL_SOCKET, _MEMORY_INFO, 4 * _FIGURES)
    return int(struct.unpack(f"{_FIGURES}I", figures)[-1])


class LossyRoad(ForwardingRoad):
    """A road that loses a *share* of the packets with data in both directions.

    Answers go on in small pieces, with a stop after some of them. *lost* is the number of packets that were lost on
    connections that have ended.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.share = 0.0
        self.lost = 0

    def prepare(self, client: socket.socket, there: socket.socket) -> None:
        """Let both connections lose packets."""
        for each in (client, there):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            lose_packets(each, self.share)

    def _forward(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        pieces = 0
        with suppress(OSError):
            while piece := source.recv(_DROPLET if is_answer else _PIECE):
                target.sendall(piece)
                pieces += 1
                if pieces % _STOP_AFTER == 0:
                    sleep(_STOP_SECONDS)
            with self._lock:
                self.lost += lost_packets(source)
            target.shutdown(socket.SHUT_WR)


@contextmanager
def lossy_road(port: int) -> Iterator[LossyRoad]:
    """Yield a road that loses packets to a port of this machine for the length of a block, or skip the test."""
    with socket.socket() as unused:
        try:
            lose_packets(unused, 0.0)
        except PermissionError:
            lacking("packet-filter")
    with running_road(LossyRoad(port)) as road:
        yield road
