"""The node agent: processor time of a request, memory while idle, and the shim that a kubelet executes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from bench.agent_place import AgentPlace, cpu_seconds, image_of
from bench.lookups import run_floor
from bench.measure import ROOT, Row, quickest_tenth, take_turns
from bench.plugins import REGISTRY, compile_program
from bench.programs import STARLETTE

_IMAGES = 2_000
_CONNECTIONS = 64
_REQUESTS = 20_000
_ROUNDS = 5
_START_SECONDS = 30.0
_STARLETTE_RECORDED = 125.0
_IDLE_BAR = 30.0
_SHIM = "C shim, over an empty static program"
_SHIM_BAR = 150.0
_BLOCKS, _BLOCK_RUNS = 30, 50
# Starlette on uvicorn with httptools, which reads the request and answers with the bytes of its standard input.
_STARLETTE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
answer = sys.stdin.buffer.read()
async def look_up(request):
    await request.json()
    return Response(answer, media_type="application/json")
app = Starlette(routes=[Route("/v1/lookup", look_up, methods=["POST"])])
uvicorn.run(app, uds=sys.argv[1], loop="asyncio", http="httptools", log_level="warning")
"""
_API_VERSION = "credentialprovider.kubelet.k8s.io/v1"
_SHIM_REQUEST = json.dumps(
    {"kind": "CredentialProviderRequest", "apiVersion": _API_VERSION, "image": f"{REGISTRY}/team/app:v1"}
).encode()


def run(folder: str) -> list[Row]:
    """Return the rows of the shim and of the agent."""
    if not os.path.exists("/proc/self/smaps_rollup"):
        return [Row(what="the node agent", why="no /proc")]
    place = AgentPlace(folder, cache_key_type="Registry")
    try:
        place.start()
        idle = Row(what="idle agent, PSS", measured=place.memory_mb(), unit="MB", most=_IDLE_BAR)
        return [_shim_row(folder), _request_row(place, folder), idle]
    finally:
        place.close()


def _request_row(place: AgentPlace, folder: str) -> Row:
    what = f"agent, CPU a request, {_IMAGES:,} images"
    requests = [_request(image_of(at)) for at in range(_IMAGES)]
    answer = place.ask("POST", "/v1/lookup", {"image": image_of(0)}).partition(b"\r\n\r\n")[2]
    contestants = {"agent": partial(_cpu_of_requests, place.pid, place.socket, requests)}
    if not os.path.exists(STARLETTE):
        measured = min(take_turns(contestants, _ROUNDS).figures["agent"])
        against = _STARLETTE_RECORDED
        return Row(
            what=what, measured=measured, unit="µs", peer="Starlette*", against=against, most_times=1.0
        )
    path = os.path.join(folder, "starlette.sock")
    with _starlette(path, answer) as pid:
        contestants["Starlette"] = partial(_cpu_of_requests, pid, path, requests)
        results = take_turns(contestants, _ROUNDS)
    return results.row(what, "agent", "Starlette", unit="µs", statistic=min, most_times=1.0)


@contextmanager
def _starlette(path: str, answer: bytes) -> Iterator[int]:
    command = [STARLETTE, "-c", _STARLETTE, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
        assert server.stdin is not None
        server.stdin.write(answer)
        server.stdin.close()
        try:
            yield server.pid
        finally:
            server.kill()


def _connect(path: str) -> list[socket.socket]:
    """Return connections to a server, which may have just been started."""
    until = time.monotonic() + _START_SECONDS
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.02)
    connections = [socket.socket(socket.AF_UNIX) for _ in range(_CONNECTIONS)]
    for connection in connections:
        connection.connect(path)
    return connections


def _request(image: str) -> bytes:
    body = json.dumps({"image": image}).encode()
    head = b"POST /v1/lookup HTTP/1.1\r\nhost: agent\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


def _cpu_of_requests(pid: int, path: str, requests: Sequence[bytes]) -> list[float]:
    """Return the microseconds of a request; as many as there are connections are under way at once."""
    before = cpu_seconds(pid)
    connections = _connect(path)
    rounds = _REQUESTS // len(connections)
    for first in range(0, rounds * len(connections), len(connections)):
        for at, connection in enumerate(connections, first):
            connection.sendall(requests[at % len(requests)])
        for connection in connections:
            _receive(connection)
    for connection in connections:
        connection.close()
    return [(cpu_seconds(pid) - before) / (rounds * len(connections)) * 1e6]


def _receive(connection: socket.socket) -> None:
    """Read one whole reply, which a server may send in two parts."""
    data = connection.recv(65536)
    assert data.startswith(b"HTTP/1.1 200 "), data
    while not data.endswith(b"}"):
        data += connection.recv(65536)


def _shim_row(folder: str) -> Row:
    """Return the row of the shim, with an agent in C that answers at once."""
    # Everything in it is for the shim alone, and nobody else may write there.
    home = os.path.join(folder, "shim")
    os.mkdir(home, 0o700)
    server, floor, empty, shim = (os.path.join(home, name) for name in ("server", "floor", "empty", "shim"))
    compiler = shutil.which("musl-gcc")
    if (
        compiler is None
        or not (compile_program("agent", server) and compile_program("floor", floor))
        or not compile_program("empty", empty, libc="musl")
    ):
        return Row(what=_SHIM, why="no musl-gcc")
    source = os.path.join(ROOT, "native", "shim.c")
    subprocess.run([compiler, "-O2", "-static", "-s", "-o", shim, source], check=True)
    path = os.path.join(home, "agent.sock")
    os.symlink(path, f"{shim}.agent")
    with _agent_in_c(server, path):
        done = subprocess.run([shim], input=_SHIM_REQUEST, stdout=subprocess.PIPE, check=True)
        assert b"AWS" in done.stdout
        contestants = {
            name: partial(run_floor, floor, program, _SHIM_REQUEST, _BLOCK_RUNS)
            for name, program in (("empty", empty), ("shim", shim))
        }
        results = take_turns(contestants, _BLOCKS)
    alone, whole = (quickest_tenth(results.figures[name]) for name in ("empty", "shim"))
    return Row(
        what=_SHIM, measured=whole - alone, unit="µs", peer="empty program", against=alone, most=_SHIM_BAR
    )


@contextmanager
def _agent_in_c(server: str, path: str) -> Iterator[None]:
    response = {
        "kind": "CredentialProviderResponse",
        "apiVersion": _API_VERSION,
        "cacheKeyType": "Registry",
        "cacheDuration": "0s",
        # As long as a real one.
        "auth": {REGISTRY: {"username": "AWS", "password": "x" * 1800}},
    }
    document = {"kind": "ProviderResponse", "outcome": "answered", "source": "cache", "response": response}
    body = json.dumps(document).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    with subprocess.Popen([server, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(head + body)
        process.stdin.close()
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()
