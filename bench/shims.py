"""What the kubelet executes when there is a node agent: the shims, beside programs that do nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.measure import ROOT, Row, quickest_tenth, seconds_of, skipped, take_turns
from bench.plugins import REGISTRY, compile_program

_BLOCKS = 30
_BLOCK_RUNS = 50
# The first runs of a block pay for what its neighbour left in the caches; they are not counted.
_SETTLING_RUNS = 5
_NATIVE_BAR = 100.0
_STARTS = 60
_PYTHON_BAR = 4.0
_NATIVE, _PYTHON = "the shim in C, beyond an empty static program", "the shim in Python"
_API_VERSION = "credentialprovider.kubelet.k8s.io/v1"
_REQUEST = json.dumps(
    {"kind": "CredentialProviderRequest", "apiVersion": _API_VERSION, "image": f"{REGISTRY}/team/app:v1"}
).encode()


def run(folder: str) -> list[Row]:
    """Return rows for both shims, each with an agent that answers at once."""
    server = os.path.join(folder, "shims-agent")
    if not compile_program("agent", server):
        return [skipped(name, "no C compiler") for name in (_NATIVE, _PYTHON)]
    # Everything in it is for the shims alone, and nobody else may write there.
    home = os.path.join(folder, "shims")
    os.mkdir(home, 0o700)
    with _serving(server, os.path.join(home, "agent.sock")):
        return [_native_row(home), _python_row(home)]


@contextmanager
def _serving(server: str, socket: str) -> Iterator[None]:
    with subprocess.Popen([server, socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_answer())
        process.stdin.close()
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def _answer() -> bytes:
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
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


def _put(home: str, name: str, program: bytes) -> str:
    """Write a shim beside the link to the agent's socket, check that it answers, and return its path."""
    path = os.path.join(home, name)
    with open(path, "wb") as stream:
        stream.write(program)
    os.chmod(path, 0o755)
    os.symlink(os.path.join(home, "agent.sock"), f"{path}.agent")
    done = subprocess.run([path], input=_REQUEST, stdout=subprocess.PIPE, check=True)
    assert b"AWS" in done.stdout
    return path


def _native_row(home: str) -> Row:
    compiler = shutil.which("musl-gcc")
    floor, empty, built = (os.path.join(home, name) for name in ("floor", "empty", "built"))
    if (
        compiler is None
        or not compile_program("floor", floor)
        or not compile_program("empty", empty, libc="musl")
    ):
        return skipped(_NATIVE, "no musl-gcc")
    source = os.path.join(ROOT, "native", "shim.c")
    subprocess.run([compiler, "-O2", "-static", "-s", "-o", built, source], check=True)
    with open(built, "rb") as stream:
        shim = _put(home, "native", stream.read())
    contestants = {name: partial(_ask, floor, path) for name, path in (("empty", empty), ("shim", shim))}
    results = take_turns(contestants, _BLOCKS)
    # A difference of two small figures: medians of a busy machine differ by more than that from each other.
    difference = quickest_tenth(results["shim"]) - quickest_tenth(results["empty"])
    alone = quickest_tenth(results["empty"])
    note = f"quickest tenths of {_BLOCKS} x {_BLOCK_RUNS} runs; the empty program takes {alone:.0f} µs"
    return Row(_NATIVE, difference, "µs", _NATIVE_BAR, note=note)


def _ask(floor: str, program: str) -> list[float]:
    """Return the microseconds of each run of a block."""
    printed = subprocess.run(
        [floor, program, str(_BLOCK_RUNS)], input=_REQUEST, capture_output=True, check=True
    )
    return [int(nanoseconds) / 1e3 for nanoseconds in printed.stdout.split()][_SETTLING_RUNS:]


def _python_row(home: str) -> Row:
    from keyferry.bridge.kubelet.program import python_shim

    # The interpreter itself, as an installed shim has it: a virtual environment adds to every start.
    interpreter = os.path.realpath(sys.executable)
    shim = _put(home, "python", python_shim(interpreter))
    bare = [interpreter, "-I", "-S", "-c", "pass"]
    contestants = {"bare": partial(_start, bare), "shim": partial(_start, [shim])}
    results = take_turns(contestants, _STARTS)
    return Row(
        _PYTHON,
        quickest_tenth(results["shim"]),
        "ms",
        quickest_tenth(results["bare"]),
        "python3 -I -S -c pass",
        _PYTHON_BAR,
        f"quickest tenths of {_STARTS} starts each",
    )


def _start(command: list[str]) -> list[float]:
    ask = partial(subprocess.run, command, input=_REQUEST, stdout=subprocess.DEVNULL, check=True)
    return [seconds_of(ask) * 1e3]
