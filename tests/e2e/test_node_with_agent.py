"""A node from end to end: a registry with a login, a container runtime, the agent in a container, a shim.

The kubelet is the one part that is played: the shim is executed as it does it, with the request on standard input, and
the runtime pulls with the credential of the answer.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from keyferry import ContainerRuntimeError, Credential, Source, SourceKind
from keyferry.pulls.cri import connect_runtime
from support import parts
from support.agent_image import (
    BUILD_SECONDS,
    KEYFERRY,
    PREFIX,
    SOCKET_FOLDER,
    USER,
    ImageRunner,
    agent_image,
    read_archive,
)
from support.agents import Reply, ask
from support.images import build, push
from support.plugins import API_VERSION, compile_program, provider_entry, write_config
from support.registry import Registry, basic, running
from support.shims import request

pytestmark = [parts.root, pytest.mark.timeout(BUILD_SECONDS)]
PLUGIN = "acme-credential-provider"
PUSHER = ("pusher", "kf-push-word")
FIRST, SECOND = "kf-first-word", "kf-second-word"
# As most plugins of clouds are: a static program, which runs on the node and in a container of any kind.
SOURCE = """\
#include <stdio.h>
#include <unistd.h>
int main(void) {
    char data[4096];
    while (read(0, data, sizeof(data)) > 0) {}
    FILE *answer = fopen("%s", "r");
    size_t size = answer ? fread(data, 1, sizeof(data), answer) : 0;
    return size == 0 || fwrite(data, 1, size, stdout) != size;
}
"""
OWN_DURATION, AGENTS_DURATION = "1h", "0s"


@dataclass(frozen=True)
class WholeNode:
    """The node: its folders are where the kubelet has them, and mounted into containers."""

    folder: Path
    registry: Registry
    runner: ImageRunner

    @property
    def bin_dir(self) -> Path:
        """The kubelet's folder of plugins."""
        return self.folder / "bin"

    @property
    def socket(self) -> Path:
        """The agent's socket."""
        return self.folder / "plugins" / "keyferry" / "agent.sock"

    def set_password(self, password: str) -> None:
        """Let the cloud rotate a password: the registry takes the new one only, and so does the plugin give it."""
        self.registry.set_users({"node": password, PUSHER[0]: PUSHER[1]})
        answer = {
            "kind": "CredentialProviderResponse",
            "apiVersion": API_VERSION,
            "cacheKeyType": "Registry",
            "cacheDuration": OWN_DURATION,
            "auth": {self.registry.host: {"username": "node", "password": password}},
        }
        draft = self.folder / "cloud" / "answer.draft"
        draft.write_text(json.dumps(answer))
        draft.replace(draft.with_name("answer.json"))

    def push(self, name: str) -> str:
        """Push an image, and return its name."""
        push(self.registry, name, "v1", build(name.encode()), basic(*PUSHER))
        return f"{self.registry.host}/{name}:v1"

    def execute(self, image: str) -> dict[str, Any]:
        """Execute the provider as a kubelet does: bin dir and name, the request, the kubelet's environment."""
        done = subprocess.run(
            [str(self.bin_dir / PLUGIN), "--config", "/etc/acme"],
            input=request(image),
            env={"PATH": os.environ["PATH"], "HOME": "/root"},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict)
        return answer

    def pull(self, name: str, duration: str) -> Credential:
        """Pull an image as a kubelet does; the answer's duration tells who answered: the agent, or the plugin."""
        image = self.push(name)
        answer = self.execute(image)
        assert answer["cacheDuration"] == duration
        login = answer["auth"][self.registry.host]
        source = Source(kind=SourceKind.PROVIDER, name=PLUGIN)
        credential = Credential(
            username=login["username"], password=login["password"], source=source, key=self.registry.host
        )
        self.pull_with(image, credential)
        return credential

    def pull_with(self, image: str, credential: Credential) -> None:
        """Let the runtime pull an image."""
        with connect_runtime(f"unix://{self.runner.socket}") as runtime:
            assert runtime.pull_image(image, credential)
            assert runtime.find_image(image) is not None

    def install(self, *words: str) -> str:
        """Run the installer in a container, as an init container does, with two folders of the node."""
        mounts = {Path("/host/bin"): (self.bin_dir, "rw"), self.socket.parent: (self.socket.parent, "rw")}
        command = (KEYFERRY, "bridge", "kubelet", words[0], "--bin-dir", "/host/bin", *words[1:])
        done = self.runner.run_as_root(*command, mounts=mounts)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def agent(self) -> Any:
        """Run the agent in a container, with the socket's folder, the config and the plugins of the node."""
        mounts = {
            SOCKET_FOLDER: (self.socket.parent, "rw"),
            Path("/node/bin"): (self.bin_dir, "ro"),
            Path("/node/config"): (self.folder / "config", "ro"),
            self.folder / "cloud": (self.folder / "cloud", "ro"),
        }
        config, bin_dir = "/node/config/providers.json", "/node/bin"
        return self.runner.agent(mounts, KEYFERRY_CONFIG=config, KEYFERRY_BIN_DIR=bin_dir)

    def ask(self, method: str, path: str, document: object = None) -> Reply:
        """Ask the agent as root of the node."""
        return ask(str(self.socket), method, path, document)


@pytest.fixture
def node(runner: ImageRunner, tmp_path: Path) -> Iterator[WholeNode]:
    folder = runner.containerd.folder / "node"
    with running(tmp_path / "registry") as registry:
        for name in ("bin", "cloud", "config", "plugins/keyferry"):
            (folder / name).mkdir(parents=True)
        compile_program(folder / "bin" / PLUGIN, SOURCE % (folder / "cloud" / "answer.json"), static=True)
        entry = provider_entry(PLUGIN, matchImages=[registry.host], args=["--config", "/etc/acme"])
        write_config(folder / "config" / "providers.json", [entry])
        whole = WholeNode(folder, registry, runner)
        whole.set_password(FIRST)
        yield whole


def test_a_node_from_installation_to_removal(node: WholeNode) -> None:
    plugin = node.bin_dir / PLUGIN
    before = plugin.read_bytes()
    node.pull("before/the-shim", OWN_DURATION)

    trust = ["--socket", str(node.socket), "--agent-user", str(USER)]
    done = node.install("install", "--in-front-of", PLUGIN, "--shim", "native", *trust)
    assert "a shim, in front of" in done
    assert plugin.read_bytes() == machine_shim()
    assert (node.socket.parent.stat().st_uid, os.readlink(f"{plugin}.agent")) == (USER, str(node.socket))
    node.pull("before/the-agent", OWN_DURATION)

    with node.agent() as agent:
        old = node.pull("with/the-agent", AGENTS_DURATION)
        assert old.password == FIRST
        node.pull("from/its-cache", AGENTS_DURATION)
        (provider,) = node.ask("GET", "/v1/status").document["providers"]
        assert (provider["runs"], provider["hits"]) == (1, 1)

        node.set_password(SECOND)
        stale = node.push("after/the-rotation")
        with pytest.raises(ContainerRuntimeError, match="401 Unauthorized"):
            node.pull_with(stale, old)
        # Neither the kubelet nor containerd reports it. An operator does so, as docs/agent-reference.md tells.
        (cached,) = node.ask("POST", "/v1/lookup", {"image": stale}).document["credentials"]
        refused = {"image": stale, "username": cached["username"], "password": cached["password"]}
        assert node.ask("POST", "/v1/evict", refused).document["evicted"] == 1
        assert node.pull("after/the-rotation", AGENTS_DURATION).password == SECOND

        agent.kill()
        assert node.pull("without/the-agent", OWN_DURATION).password == SECOND
        assert node.socket.exists(), "what a killed agent leaves"
        assert FIRST not in agent.log
        assert SECOND not in agent.log

    with node.agent():
        node.pull("with/the-next-agent", AGENTS_DURATION)
        assert "the plugin again" in node.install("uninstall", PLUGIN)
        node.pull("after/the-removal", OWN_DURATION)
    assert [(each.name, each.read_bytes()) for each in node.bin_dir.iterdir()] == [(PLUGIN, before)]


def machine_shim() -> bytes:
    """The static shim for this machine, as it is in the image."""
    path = f"{PREFIX}/lib/keyferry/keyferry-shim-{os.uname().machine}"
    return read_archive(agent_image()).contents[path]
