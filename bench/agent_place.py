"""A folder with a provider and the agents that run in it, for the load and for the benchmarks of the agent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from bench.measure import SOURCES
from bench.plugins import REGISTRY, write_config

PLUGIN = "plugin"
_API_VERSION = "credentialprovider.kubelet.k8s.io/v1"
# The password is that of the image, so that an answer for another image is noticed. It takes as long as its sleep.
_SCRIPT = """\
#!/bin/sh
read -r request
image=${{request#*'"image":"'}}
image=${{image%%'"'*}}
echo "$image" >> "$0.runs"
{pause}
cat << END
{{"kind":"CredentialProviderResponse","apiVersion":"{version}","cacheKeyType":"{kind}","cacheDuration":"{duration}",\
"auth":{{"{registry}":{{"username":"bench","password":"for {registered}"}}}}}}
END
"""


def image_of(number: int) -> str:
    """Return one of the images that clients ask for."""
    return f"{REGISTRY}/team/app-{number}"


def write_plugin(
    path: str, cache_key_type: str = "Image", pause_seconds: float = 0.0, cache_duration: str = "1h"
) -> None:
    """Write a plugin whose password names the image, or the registry if an answer is for all of its images."""
    text = _SCRIPT.format(
        pause=f"sleep {pause_seconds}" if pause_seconds else ":",
        version=_API_VERSION,
        kind=cache_key_type,
        duration=cache_duration,
        registry=REGISTRY,
        registered="$image" if cache_key_type == "Image" else REGISTRY,
    )
    draft = f"{path}.draft"
    Path(draft).write_text(text, encoding="utf-8")
    os.chmod(draft, 0o755)
    os.replace(draft, path)


class AgentPlace:
    """The folder, and the agents in it: the last one has the socket."""

    def __init__(self, folder: str, *flags: str, cache_key_type: str = "Image") -> None:
        self.folder = folder
        self.plugin = os.path.join(folder, PLUGIN)
        write_plugin(self.plugin, cache_key_type)
        self.config = Path(write_config(os.path.join(folder, "config.json"), PLUGIN, [REGISTRY]))
        self.socket = os.path.join(folder, "run", "agent.sock")
        self.agents: list[subprocess.Popen[bytes]] = []
        self._flags = flags
        self._log = Path(folder) / "agent.log"

    @property
    def pid(self) -> int:
        """The process that has the socket."""
        return self.agents[-1].pid

    def start(self) -> None:
        """Start an agent, and wait until it has the socket."""
        inode = _inode(self.socket)
        places = ["--socket", self.socket, "--config", str(self.config), "--bin-dir", self.folder]
        command = [sys.executable, "-m", "keyferry", "agent", "run", *places, *self._flags]
        with self._log.open("ab") as log:
            environment = os.environ | {"PYTHONPATH": SOURCES}
            self.agents.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        while _inode(self.socket) in (None, inode):
            if self.agents[-1].poll() is not None:
                raise RuntimeError(f"the agent ended: {self._log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.005)

    def replace(self) -> None:
        """Start a second agent in the place of the first, then stop the first."""
        self.start()
        first = self.agents.pop(0)
        first.send_signal(signal.SIGTERM)
        first.wait()

    def kill(self) -> None:
        """End the agent as a crash does; its socket stays."""
        agent = self.agents.pop()
        agent.kill()
        agent.wait()

    def close(self) -> None:
        """End every agent."""
        while self.agents:
            self.kill()

    def ask(self, method: str, target: str, document: object = None) -> bytes:
        """Send one request, and return the whole reply."""
        body = b"" if document is None else json.dumps(document).encode()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.socket)
            head = f"{method} {target} HTTP/1.1\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            return b"".join(iter(lambda: client.recv(65536), b""))

    def runs(self) -> int:
        """Return how often the plugin has run."""
        try:
            with open(f"{self.plugin}.runs", encoding="utf-8") as stream:
                return len(stream.readlines())
        except FileNotFoundError:
            return 0

    def memory_mb(self, name: str = "Pss") -> float:
        """Return the memory of the agent: ``Pss``, its share of common pages included, or ``Rss``."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) / 1024

    def cpu_seconds(self) -> float:
        """Return the processor time of the agent."""
        return cpu_seconds(self.pid)


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process."""
    spent = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            text = Path(f"/proc/{pid}/task/{task}/schedstat").read_text(encoding="ascii")
        except OSError:
            continue  # the thread has ended
        spent += int(text.split()[0])
    return spent / 1e9


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None
