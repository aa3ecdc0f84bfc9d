"""The node agent at its default log level: processor time of a request, and memory while it is idle."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from functools import partial

from bench.agent_place import AgentPlace, image_of
from bench.measure import Row, best, skipped, take_turns

# One that is repeated, and numbers below, around and far above the bounds of what the agent remembers of a request.
_NUMBERS = (1, 1_000, 3_000, 20_000)
_CONNECTIONS = 64
_ROUNDS = 7
# Rounds until everything is remembered that will be.
_UNTIL_REMEMBERED = 3
_REQUESTS = 20_000
_CPU_BAR = 60.0
_IDLE_BAR = 30.0


def run(folder: str) -> list[Row]:
    """Return rows for requests of more and more images, and for the memory of an agent that nobody has asked."""
    if not os.path.exists("/proc/self/smaps_rollup"):
        return [skipped("the node agent", "no /proc")]
    place = AgentPlace(folder, cache_key_type="Registry")
    try:
        place.start()
        idle = Row("the idle agent", place.memory_mb(), "MB", _IDLE_BAR, note="PSS after its start")
        return [*_requests(place), idle]
    finally:
        place.close()


def _requests(place: AgentPlace) -> list[Row]:
    connections = [_connect(place.socket) for _ in range(_CONNECTIONS)]
    results: dict[int, list[list[float]]] = {}
    # One after the other, not in turns: each would push the images of the others out of the agent's memory.
    for number in _NUMBERS:
        asked = [_request(image_of(at)) for at in range(number)]
        ask = partial(_round, place, connections, asked)
        for _ in range(_UNTIL_REMEMBERED):
            ask()
        results |= take_turns({number: ask}, _ROUNDS)
    for connection in connections:
        connection.close()
    note = f"{_CONNECTIONS} connections, best of {_ROUNDS} x {_REQUESTS:,} requests"
    return [
        Row(
            f"CPU of the agent a request, {_images(number)}", best(results[number]), "µs", _CPU_BAR, note=note
        )
        for number in _NUMBERS
    ]


def _images(number: int) -> str:
    return "one image" if number == 1 else f"{number:,} images in turn"


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def _request(image: str) -> bytes:
    body = json.dumps({"image": image}).encode()
    return b"POST /v1/lookup HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _round(place: AgentPlace, connections: Sequence[socket.socket], asked: Sequence[bytes]) -> list[float]:
    """Return the microseconds of a request; as many as there are connections are under way at once."""
    before = place.cpu_seconds()
    for first in range(0, _REQUESTS, len(connections)):
        for at, connection in enumerate(connections, first):
            connection.sendall(asked[at % len(asked)])
        for connection in connections:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    rounds = -(-_REQUESTS // len(connections)) * len(connections)
    return [(place.cpu_seconds() - before) / rounds * 1e6]
