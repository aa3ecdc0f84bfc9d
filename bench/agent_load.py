"""Load the node agent from separate client processes: a steady rate, reloads and take-overs meanwhile.

Clients of the steady rate keep their connections, and use them in turn: each process has one request under way. Those
of take-overs connect afresh for every request. It exits with 1 if a request failed, and never for a time: what the
percentiles show on a busy machine is mostly how long a client waited for a processor.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import SOURCES
from bench.plugins import REGISTRY, write_config, write_script

_CLIENTS = 4
_CONNECTIONS = 64
_RATE = 2000
_RELOADS, _TAKE_OVERS = 100, 10
# Sends at fixed instants and counts from these, so that a slow reply delays no later request unnoticed.
_CLIENT = """
import json, socket, sys, time
path, seconds, connections, rate, fresh = sys.argv[1], *map(float, sys.argv[2:])
body = b'{"image":"%b/team/app:v1"}' % b"REGISTRY"
ask = b"POST /v1/lookup HTTP/1.1\\r\\ncontent-length: %d\\r\\n\\r\\n%b" % (len(body), body)
def connect():
    made = socket.socket(socket.AF_UNIX); made.connect(path); made.settimeout(20); return made
def exchange(client):
    client.sendall(ask); data = client.recv(65536)
    return data.startswith(b"HTTP/1.1 200 ") and b'"credentials":[{' in data
kept = [] if fresh else [connect() for _ in range(int(connections))]
started, times, errors, number = time.perf_counter(), [], [], 0
while (due := started + number / rate) < started + seconds:
    while time.perf_counter() < due: time.sleep(max(due - time.perf_counter(), 0) / 2)
    try:
        client = connect() if fresh else kept[number % len(kept)]
        if not exchange(client): errors.append("not answered")
        if fresh: client.close()
    except OSError as error: errors.append(repr(error))
    times.append(time.perf_counter() - due); number += 1
print(json.dumps({"times": times, "errors": errors}))
""".replace("REGISTRY", REGISTRY)


def main() -> int:
    """Run all parts, print a table, and return the exit code."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder))
        try:
            place.start()
            before = place.memory_mb()
            failed = _report("steady", place.load(seconds))
            print(f"  memory: {before:.1f} MB before, {place.memory_mb():.1f} MB after")
            clients = place.clients(max(seconds / 4, 8), is_fresh=False)
            refused = place.reload_often()
            _check_running(clients)
            failed += _report(f"{_RELOADS} reloads, {refused} of them of a broken config", _collect(clients))
            clients = place.clients(max(seconds / 2, 15), is_fresh=True)
            for _ in range(_TAKE_OVERS):
                place.replace()
            _check_running(clients)
            failed += _report(f"{_TAKE_OVERS} take-overs", _collect(clients))
        finally:
            place.stop()
    return 1 if failed else 0


class _Place:
    """A folder with a provider, and the agents that run in it."""

    def __init__(self, folder: Path) -> None:
        write_script(str(folder / "plugin"))
        self._folder = folder
        self._config = Path(write_config(str(folder / "config.json"), "plugin", [REGISTRY]))
        self._socket = str(folder / "run" / "agent.sock")
        self._agents: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start an agent, and wait until it has the socket and a warm cache."""
        inode = _inode(self._socket)
        places = ["--socket", self._socket, "--config", str(self._config), "--bin-dir", str(self._folder)]
        command = [sys.executable, "-m", "keyferry", "agent", "run", "--log-level", "error", *places]
        self._agents.append(
            subprocess.Popen(
                [*command, "--watch", "false"],
                env=os.environ | {"PYTHONPATH": SOURCES},
                stderr=subprocess.DEVNULL,  # it has the broken configs
            )
        )
        while _inode(self._socket) in (None, inode):
            time.sleep(0.01)
        self._ask("POST", "/v1/lookup", json.dumps({"image": f"{REGISTRY}/team/app:v1"}).encode())

    def replace(self) -> None:
        """Start a second agent in the place of the first, then stop the first."""
        self.start()
        first = self._agents.pop(0)
        first.send_signal(signal.SIGTERM)
        first.wait()

    def reload_often(self) -> int:
        """Reload many times, every tenth time a broken config; return how many were refused."""
        good, refused = self._config.read_bytes(), 0
        for number in range(_RELOADS):
            self._config.write_bytes(b"{" if number % 10 == 9 else good)
            refused += b'"applied":false' in self._ask("POST", "/v1/reload", b"")
        self._config.write_bytes(good)
        return refused

    def load(self, seconds: float) -> list[dict[str, list[object]]]:
        """Run the clients of the steady rate to their end."""
        return _collect(self.clients(seconds, is_fresh=False))

    def clients(self, seconds: float, *, is_fresh: bool) -> "list[subprocess.Popen[bytes]]":
        """Start the clients; fresh connections come at a tenth of the rate."""
        rate = _RATE / _CLIENTS / (10 if is_fresh else 1)
        words = [self._socket, str(seconds), str(_CONNECTIONS / _CLIENTS), str(rate), str(int(is_fresh))]
        command = [sys.executable, "-I", "-c", _CLIENT, *words]
        return [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(_CLIENTS)]

    def memory_mb(self) -> float:
        """Return the memory of the agent, its share of common pages included."""
        lines = Path(f"/proc/{self._agents[0].pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024

    def stop(self) -> None:
        """End every agent."""
        for agent in self._agents:
            agent.kill()
            agent.wait()

    def _ask(self, method: str, target: str, body: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self._socket)
            head = f"{method} {target} HTTP/1.1\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            return b"".join(iter(lambda: client.recv(65536), b""))


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def _check_running(clients: "list[subprocess.Popen[bytes]]") -> None:
    """Say so if the load ended before what was to happen under it."""
    if any(client.poll() is not None for client in clients):
        print("  the clients ended too early: give more SECONDS")


def _collect(clients: "list[subprocess.Popen[bytes]]") -> list[dict[str, list[object]]]:
    return [json.loads(client.communicate()[0]) for client in clients]


def _report(what: str, found: list[dict[str, list[object]]]) -> int:
    """Print one part; return the number of requests that failed."""
    times = sorted(float(str(each)) for part in found for each in part["times"])
    errors = [str(each) for part in found for each in part["errors"]]
    shown = ", ".join(
        f"p{share:g} {times[min(int(len(times) * share / 100), len(times) - 1)] * 1000:.2f} ms"
        for share in (50, 99, 99.9)
    )
    print(f"{what}: {len(times):,} requests, {len(errors)} failed, {shown}", flush=True)
    for error in sorted(set(errors))[:5]:
        print(f"  {errors.count(error)} x {error}")
    return len(errors)


if __name__ == "__main__":
    sys.exit(main())
