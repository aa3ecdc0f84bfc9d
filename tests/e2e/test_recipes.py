"""The recipes of the bridges' page: a lazy snapshotter's docker config, and a builder in a pod."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from support.agents import RunningAgent, running_agent
from support.commands import run_in_process
from support.parts import need, root
from support.plugins import Node, provider_entry, write_config, write_executable
from support.registry import Registry, basic, make_image, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tools are Debian's")
LOGIN = ("alice", "s3cret")
REPOSITORY = "team/app"
HELPER = f"#!{sys.executable}\nfrom keyferry.bridge.docker_helper import main\nmain()\n"
# A pod's mount namespace: the socket's folder is mounted, read-only; the node's config and plugins are not there.
POD = """\
set -e
mount --bind "$NODE/run" "$POD/agent"
mount -o remount,bind,ro "$POD/agent"
mount -t tmpfs none "$NODE"
exec "$@"
"""


@dataclass
class World:
    """A registry, a node with its agent, and a folder for the tool under test, which does not see the node."""

    registry: Registry
    node: Node
    agent: RunningAgent
    folder: Path

    @property
    def image(self) -> str:
        """The image in the registry."""
        return f"{self.registry.host}/{REPOSITORY}:v1"

    def answer_with(self, user: str, word: str) -> None:
        """Let the registry take this login alone, and the plugin give it, for no longer than one lookup."""
        self.registry.set_users({user: word})
        self.node.recording(auth={self.registry.host: (user, word)}, duration="0s")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(tmp_path / "registry") as registry:
        registry.set_users(dict([LOGIN]))
        registry.push(REPOSITORY, "v1", make_image(), basic(*LOGIN))
        (tmp_path / "node").mkdir()
        node = Node(tmp_path / "node")
        node.recording(auth={registry.host: LOGIN})
        entry = provider_entry(matchImages=[registry.host], defaultCacheDuration="0s")
        write_config(node.config, [entry])
        folder = tmp_path / "tool"
        (folder / "path").mkdir(parents=True)
        write_executable(folder / "path" / "docker-credential-keyferry", HELPER)
        with running_agent(node) as agent:
            yield World(registry, node, agent, folder)


class Snapshotter:
    """What stargz, soci and nydus do for every mount, by docker's own library.

    They read ``$DOCKER_CONFIG/config.json``, look for the host among ``credHelpers``, run that helper with the host on
    standard input and no line break, and fetch ranges of a layer with what it prints.
    """

    def __init__(self, world: World, environ: dict[str, str]) -> None:
        self._world = world
        self._environ = environ

    def login(self, host: str) -> tuple[str, str]:
        """Return the user name and the secret for a host."""
        asked = "https://index.docker.io/v1/" if host in ("docker.io", "registry-1.docker.io") else host
        config = json.loads((Path(self._environ["DOCKER_CONFIG"]) / "config.json").read_text())
        program = f"docker-credential-{config['credHelpers'][asked]}"
        done = subprocess.run(
            [str(self._world.folder / "path" / program), "get"],
            input=asked.encode(),
            env=self._environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        found = json.loads(done.stdout)
        return found["Username"], found["Secret"]

    def mount(self) -> int:
        """Fetch the manifest, then a part of the layer; return the status."""
        registry = self._world.registry
        authorization = basic(*self.login(registry.host))
        headers = {"Authorization": authorization, "Accept": "application/vnd.oci.image.manifest.v1+json"}
        opener = build_opener(ProxyHandler({}))
        try:
            with opener.open(
                Request(f"{registry.url}/v2/{REPOSITORY}/manifests/v1", headers=headers)
            ) as found:
                layer = json.load(found)["layers"][0]["digest"]
            part = {"Authorization": authorization, "Range": "bytes=0-9"}
            with opener.open(Request(f"{registry.url}/v2/{REPOSITORY}/blobs/{layer}", headers=part)) as found:
                return int(found.status)
        except HTTPError as error:
            error.close()
            return error.code


def test_a_lazy_snapshotter_gets_credentials_that_rotate(world: World) -> None:
    """Its service has a docker config of its own, the helper on its PATH, and nothing else."""
    config = world.folder / "docker" / "config.json"
    done = run_in_process("bridge", "docker", "install", world.registry.host, "--docker-config", str(config))
    assert done.returncode == 0, done.stderr
    environ = {
        "PATH": "/usr/bin:/bin",
        "DOCKER_CONFIG": str(config.parent),
        "KEYFERRY_AGENT": world.agent.socket,
        "KEYFERRY_HOST_ROOT": "/nonexistent",
    }
    snapshotter = Snapshotter(world, environ)
    assert snapshotter.mount() == 206
    world.answer_with("alice", "the-next-word")
    world.agent.ask("POST", "/v1/evict", {"image": world.image, "username": LOGIN[0], "password": LOGIN[1]})
    assert snapshotter.login(world.registry.host) == ("alice", "the-next-word")
    assert snapshotter.mount() == 206


@root
def test_a_builder_in_a_pod_reaches_the_agent_through_the_mounted_folder(world: World) -> None:
    """Real buildah builds on an image that only the node's plugin has the login for; without the agent it cannot."""
    pod = world.folder
    for name in ("agent", "config", "context"):
        (pod / name).mkdir()
    (pod / "config" / "config.json").write_text(
        json.dumps({"credHelpers": {world.registry.host: "keyferry"}})
    )
    (pod / "context" / "Dockerfile").write_text(f"FROM {world.image}\nCOPY Dockerfile /\n")
    (pod / "registries.conf").write_text("unqualified-search-registries = []\n")
    (pod / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    environ = {
        "PATH": f"{pod / 'path'}:{os.environ['PATH']}",
        "HOME": str(pod),
        "NODE": str(world.node.root),
        "POD": str(pod),
        "KEYFERRY_AGENT": str(pod / "agent" / "agent.sock"),
        "DOCKER_CONFIG": str(pod / "config"),
        "CONTAINERS_REGISTRIES_CONF": str(pod / "registries.conf"),
    }
    storage = ("--storage-driver", "vfs", "--root", str(pod / "graph"), "--runroot", str(pod / "state"))
    build = ("bud", "--isolation", "chroot", "--tls-verify=false", "--pull-always")
    policy = ("--signature-policy", str(pod / "policy.json"))
    command = [need("buildah"), *storage, *build, *policy, "-t", "built", str(pod / "context")]

    def run() -> subprocess.CompletedProcess[str]:
        inside = [need("unshare"), "--mount", "--propagation", "private", "sh", "-c", POD, "sh", *command]
        return subprocess.run(inside, env=environ, capture_output=True, text=True, check=False, timeout=120)

    done = run()
    assert done.returncode == 0, done.stderr
    assert len(world.node.runs()) == 1
    world.agent.stop()
    failed = run()
    assert failed.returncode != 0
    assert "authentication required" in failed.stderr
