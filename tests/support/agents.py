"""The node agent for tests: tokens, processes, and a client that speaks HTTP over a Unix socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from support.plugins import PATIENCE_SECONDS, REGISTRY, Node, provider_entry, wait_until, write_config


def make_token(expires: object, signature: str = "signature", **claims: object) -> str:
    """Return a token of a service account as an API server writes it; nobody here verifies it."""
    named = {"aud": ["registry"], "sub": "system:serviceaccount:ns:builder", **claims}
    if expires is not None:
        named["exp"] = int(expires) if isinstance(expires, float) and expires < 1e18 else expires
    parts = (json.dumps({"alg": "RS256"}), json.dumps(named), signature)
    return ".".join(urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts)


def counting_node(folder: Path, password: str) -> Node:
    """Return a node with one provider that counts its runs and answers with this password, and its config."""
    made = Node(folder)
    made.recording(auth={REGISTRY: ("user", password)})
    write_config(made.config, [provider_entry()])
    return made


class Reply:
    """What the agent answered: the status, the headers and the document."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def document(self) -> dict[str, Any]:
        """The body as JSON."""
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("agent", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        # Without a timeout, connect waits if many others are about to connect; with one, it fails at once.
        self.sock.connect(self._path)
        self.sock.settimeout(self.timeout)


def ask(path: str, method: str, target: str, document: object = None, **headers: str) -> Reply:
    """Send one request over a Unix socket, by the standard library's client; bytes are sent as they are."""
    connection = _UnixConnection(path, PATIENCE_SECONDS * 2)
    try:
        body = document if isinstance(document, bytes | None) else json.dumps(document).encode()
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


# The agent with less time for each step of a client, so that a test need not wait for the ten seconds it has.
_HASTENED = """
import sys
from keyferry.agent import connection
from keyferry.cli.main import run
connection.STEP_SECONDS = float(sys.argv.pop(1))
run()
"""


class Agent:
    """An agent that serves at a socket, in the folder of a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.socket = str(node.root / "run" / "agent.sock")

    @property
    def log(self) -> str:
        """What the agent has logged so far."""
        raise NotImplementedError

    @property
    def is_ready(self) -> bool:
        """Whether it has said that it serves, in either format."""
        return " ready " in self.log or '"event": "ready"' in self.log

    def ask(self, method: str, target: str, document: object = None, **headers: str) -> Reply:
        """Send one request."""
        return ask(self.socket, method, target, document, **headers)

    def look_up(self, image: str, **fields: object) -> Reply:
        """Look up an image."""
        question = {"apiVersion": "agent.keyferry.dev/v1", "kind": "LookupRequest", "image": image, **fields}
        return self.ask("POST", "/v1/lookup", question)

    @property
    def status(self) -> dict[str, Any]:
        """The agent's status."""
        return self.ask("GET", "/v1/status").document


class RunningAgent(Agent):
    """``keyferry agent run`` in a process of its own."""

    def __init__(
        self,
        node: Node,
        *flags: str,
        environ: dict[str, str] | None = None,
        before: Sequence[str] = (),
        step_seconds: float | None = None,
    ) -> None:
        super().__init__(node)
        self.log_path = node.root / f"agent-{time.monotonic_ns()}.log"
        program = ["-m", "keyferry"] if step_seconds is None else ["-c", _HASTENED, str(step_seconds)]
        command = [sys.executable, *program, "agent", "run"]
        places = ["--socket", self.socket, "--config", str(node.config), "--bin-dir", str(node.bin_dir)]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*before, *command, *places, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"KEYFERRY_PROC": str(node.root)} | (environ or {}),
            )

    @property
    def log(self) -> str:
        """What the agent has logged so far."""
        return self.log_path.read_text()

    def wait_ready(self) -> RunningAgent:
        """Wait until it serves."""
        wait_until(lambda: self.is_ready or self.process.poll() is not None, "the agent")
        assert self.process.poll() is None, self.log
        return self

    def stop(self) -> int:
        """Stop it as systemd does; return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def running_agent(
    node: Node, *flags: str, environ: dict[str, str] | None = None, step_seconds: float | None = None
) -> Iterator[RunningAgent]:
    """Run an agent for the duration of a block; the node's config is written unless it is there."""
    if not node.config.exists():
        write_config(node.config, node.entries or [provider_entry()])
    agent = RunningAgent(node, *flags, environ=environ, step_seconds=step_seconds)
    try:
        yield agent.wait_ready()
    finally:
        if agent.process.poll() is None:
            agent.process.kill()
        agent.process.wait(PATIENCE_SECONDS)
