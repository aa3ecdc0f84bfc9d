"""The client processes of the load: each is started with one JSON document, and prints what became of its requests.

A client prints a line when it is ready, and reads the instant at which all of them begin. Requests are sent at fixed
instants of the clock that all processes share, and times count from these, so that a slow reply delays no later request
unnoticed. A client that falls back runs the plugin itself, as the real ones do.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.agent_place import image_of

_ANSWER_SECONDS = 30.0
_CHUNK = 65536
_API_VERSION = "credentialprovider.kubelet.k8s.io/v1"


@dataclass
class Task:
    """What one process does: requests for *seconds*, *rate* a second on each of its connections.

    It goes on for as long as its standard input is open, so that whatever happens meanwhile happens under load.
    *first* is the number of the first of its images; each connection has one of its own, unless *is_one_image*.
    """

    kind: str
    socket: str
    plugin: str
    config: str
    seconds: float
    rate: float
    connections: int = 1
    first: int = 0
    is_one_image: bool = False
    falls_back: bool = False
    shim: str = ""
    start: float = 0.0


@dataclass
class Outcome:
    """What became of the requests: when each was sent and answered, in seconds of the shared clock."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    fell_back: int = 0
    reconnected: int = 0

    def note(self, due: float, sent: float) -> None:
        """Note a request that has ended, whatever its answer was."""
        now = time.perf_counter()
        self.spans.append((sent, now))
        self.late.append(now - due)


def main() -> None:
    """Do the task in the first argument."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", metavar="TASK", help="a JSON document")
    task = Task(**json.loads(parser.parse_args().task))
    print("ready", flush=True)
    task.start = float(sys.stdin.readline())
    outcome = Outcome()
    _KINDS[task.kind](task, outcome)
    print(json.dumps(asdict(outcome)))


def _instants(task: Task) -> Iterator[float]:
    """Yield each instant at which requests are due, when it has come."""
    number = 0
    while (due := task.start + number / task.rate) < task.start + task.seconds or not _is_over():
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        yield due
        number += 1


def _is_over() -> bool:
    """Return whether standard input is closed; nothing is written to it after the instant of the start."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


class _Connection:
    """One connection that is kept, and the image that is asked for over it."""

    def __init__(self, task: Task, number: int) -> None:
        self._path = task.socket
        self.image = image_of(number)
        body = json.dumps({"image": self.image}).encode()
        self._request = b"POST /v1/lookup HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        self._expected = f'"password":"for {self.image}"'.encode()
        self._socket: socket.socket | None = None
        self.sent = 0.0

    def fileno(self) -> int:
        """Return the descriptor; the connection is open."""
        assert self._socket is not None
        return self._socket.fileno()

    def send(self) -> None:
        """Send the request, on a new connection if there is none."""
        self.sent = time.perf_counter()
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX)
            # Without a time limit, connecting waits while many others connect; with one, it fails at once.
            self._socket.connect(self._path)
            self._socket.settimeout(_ANSWER_SECONDS)
        self._socket.sendall(self._request)

    def receive(self) -> str:
        """Read the reply; return what is wrong with it, or nothing. Raise ConnectionError if there is none."""
        assert self._socket is not None
        data = self._socket.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("closed")
        while not _is_whole(data):
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                return "the reply is cut"
            data += chunk
        if not data.startswith(b"HTTP/1.1 200 "):
            return f"status {data[9:12].decode('ascii', 'replace')}"
        return "" if self._expected in data else "another credential"

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    length = next(
        line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    return len(body) >= int(length)


def _run_kept(task: Task, outcome: Outcome) -> None:
    """Send on all connections at once, then read all replies: so many requests are under way."""
    step = 0 if task.is_one_image else 1
    connections = [_Connection(task, task.first + number * step) for number in range(task.connections)]
    for due in _instants(task):
        waiting = {}
        poll = select.poll()
        for each in connections:
            if _begin(each, task, outcome, due):
                waiting[each.fileno()] = each
                poll.register(each, select.POLLIN)
        while waiting:
            for descriptor, _ in poll.poll():
                poll.unregister(descriptor)
                _end(waiting.pop(descriptor), task, outcome, due)
    for each in connections:
        each.close()


def _begin(connection: _Connection, task: Task, outcome: Outcome, due: float) -> bool:
    """Send a request; return whether there is a reply to wait for."""
    try:
        connection.send()
    except (BrokenPipeError, ConnectionResetError):
        # A kept connection that the agent has closed; the request was not read.
        connection.close()
        outcome.reconnected += 1
        return _begin(connection, task, outcome, due)
    except OSError as error:
        connection.close()
        _give_up(connection, task, outcome, due, repr(error))
        return False
    return True


def _end(connection: _Connection, task: Task, outcome: Outcome, due: float) -> None:
    try:
        problem = connection.receive()
    except ConnectionResetError:
        # Closed before it read the request: any client of HTTP sends it again.
        connection.close()
        outcome.reconnected += 1
        if _begin(connection, task, outcome, due):
            _end(connection, task, outcome, due)
        return
    except OSError as error:
        problem = repr(error)
    if problem:
        connection.close()
        _give_up(connection, task, outcome, due, problem)
    else:
        outcome.note(due, connection.sent)


def _give_up(connection: _Connection, task: Task, outcome: Outcome, due: float, problem: str) -> None:
    """Run the plugin, if this client falls back; else the request has failed."""
    if task.falls_back:
        outcome.fell_back += 1
        problem = _run_plugin([task.plugin], connection.image)
    if problem:
        outcome.errors.append(problem)
    outcome.note(due, connection.sent)


def _run_plugin(command: list[str], image: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a plugin, or a shim in its place; return what is wrong with its answer, or nothing."""
    request = {"kind": "CredentialProviderRequest", "apiVersion": _API_VERSION, "image": image}
    text = json.dumps(request, separators=(",", ":")) + "\n"
    done = subprocess.run(
        command, input=text.encode(), capture_output=True, check=False, timeout=60, env=environment
    )
    if done.returncode:
        return f"exit status {done.returncode}: {done.stderr.decode(errors='replace')[-200:]}"
    return "" if f'"password":"for {image}"'.encode() in done.stdout else "another credential"


def _run_each(task: Task, outcome: Outcome, ask: Callable[[str], str]) -> None:
    """Ask once for each instant."""
    image = image_of(task.first)
    for due in _instants(task):
        sent = time.perf_counter()
        try:
            problem = ask(image)
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = repr(error)
        if problem:
            outcome.errors.append(problem)
        outcome.note(due, sent)


def _run_fresh(task: Task, outcome: Outcome) -> None:
    """Connect for every request, by keyferry's own client."""
    from keyferry._net.agent import Fallback, ask_agent

    def ask(image: str) -> str:
        reply = ask_agent(task.socket, "/v1/lookup", json.dumps({"image": image}).encode())
        if not isinstance(reply, Fallback) and reply.status == 200:
            return "" if f'"password":"for {image}"'.encode() in reply.body else "another credential"
        if task.falls_back:
            outcome.fell_back += 1
            return _run_plugin([task.plugin], image)
        return reply.message if isinstance(reply, Fallback) else f"status {reply.status}"

    _run_each(task, outcome, ask)


def _run_shim(task: Task, outcome: Outcome) -> None:
    """Execute the shim as the kubelet does; it falls back by itself."""
    environment = {"KEYFERRY_AGENT": task.socket}
    _run_each(task, outcome, lambda image: _run_plugin([task.shim], image, environment))


def _run_helper(task: Task, outcome: Outcome) -> None:
    """Execute docker's helper as its tools do; it falls back by itself."""
    environment = {
        **os.environ,
        "KEYFERRY_AGENT": task.socket,
        "KEYFERRY_CONFIG": task.config,
        "KEYFERRY_BIN_DIR": os.path.dirname(task.plugin),
    }
    command = [sys.executable, "-c", "from keyferry.bridge.docker_helper import main; main()", "get"]

    def ask(image: str) -> str:
        # As crane asks: for a repository.
        done = subprocess.run(
            command, input=image.encode(), capture_output=True, check=False, timeout=60, env=environment
        )
        if f'"Secret":"for {image}"'.encode() in done.stdout:
            return ""
        return f"exit status {done.returncode}: {(done.stdout + done.stderr).decode(errors='replace')[-200:]}"

    _run_each(task, outcome, ask)


_KINDS: dict[str, Callable[[Task, Outcome], None]] = {
    "kept": _run_kept,
    "fresh": _run_fresh,
    "shim": _run_shim,
    "helper": _run_helper,
}


if __name__ == "__main__":
    main()
