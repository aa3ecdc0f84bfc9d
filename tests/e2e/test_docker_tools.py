"""Real skopeo and podman pull from a real registry with docker-credential-keyferry, with an agent and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.agents import running_agent
from support.commands import run_in_process
from support.parts import need
from support.plugins import Node, write_executable
from support.registry import Registry, basic, make_image, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tools are Debian's")
LOGIN = ("alice", "s3cret")
REPOSITORY = "team/app"


@dataclass
class Machine:
    """A registry with an image in it, a node whose provider is for it, and the tools' own folders."""

    registry: Registry
    node: Node
    folder: Path
    image: str

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a tool, with the helper on PATH."""
        settings = {
            "PATH": f"{self.folder / 'path'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "KEYFERRY_CONFIG": str(self.node.config),
            "KEYFERRY_BIN_DIR": str(self.node.bin_dir),
            "KEYFERRY_AGENT": "off",
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.folder / "registries.conf"),
        }
        return subprocess.run(
            words, env={**settings, **env}, capture_output=True, text=True, check=False, timeout=120
        )

    def pull(self, tool: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Pull the image with a tool, plainly over HTTP."""
        if tool == "skopeo":
            target = f"oci:{self.folder / 'pulled'}:x"
            conf = ("--registries-conf", str(self.folder / "registries.conf"))
            source = ("--src-tls-verify=false", f"docker://{self.image}")
            words: tuple[str, ...] = ("--insecure-policy", *conf, "copy", *options, *source, target)
        else:
            words = ("pull", "--quiet", *options, "--tls-verify=false", self.image)
        return self.run(need(tool), *words, **env)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which the login is the plugin's."""
    folder = tmp_path_factory.mktemp("m")
    with running(folder / "registry") as registry:
        registry.set_users(dict([LOGIN]))
        registry.push(REPOSITORY, "v1", make_image(), basic(*LOGIN))
        node = Node(folder)
        node.provider(matchImages=[registry.host])
        node.recording(auth={registry.host: LOGIN})
        node.load()
        write_files(folder, registry)
        yield Machine(registry, node, folder, f"{registry.host}/{REPOSITORY}:v1")


def write_files(folder: Path, registry: Registry) -> None:
    """Write what the tools read: storage, registries, policy, and the helper as a program."""
    storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(storage)
    (folder / "containers.conf").write_text(f'[engine]\ntmp_dir = "{folder}/libpod"\n')
    (folder / "registries.conf").write_text("unqualified-search-registries = []\n")
    (folder / "auth.json").write_text(json.dumps({"credHelpers": {registry.host: "keyferry"}}))
    (folder / "none.json").write_text("{}")
    policy = folder / ".config" / "containers" / "policy.json"
    policy.parent.mkdir(parents=True)
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    (folder / "path").mkdir()
    script = f"#!{sys.executable}\nfrom keyferry.bridge.docker_helper import main\nmain()\n"
    write_executable(folder / "path" / "docker-credential-keyferry", script)


@pytest.mark.parametrize("tool", ["skopeo", "podman"])
def test_a_pull_through_the_library(machine: Machine, tool: str) -> None:
    before = len(machine.node.runs())
    done = machine.pull(tool, "--authfile", str(machine.folder / "auth.json"))
    assert done.returncode == 0, done.stderr
    assert len(machine.node.runs()) > before


# A pod has the agent's socket, and neither config nor plugins.
PLACES = {
    "the agent's config": {},
    "no config": {"KEYFERRY_CONFIG": "", "KEYFERRY_BIN_DIR": "", "KEYFERRY_HOST_ROOT": "/nowhere"},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("tool", ["skopeo", "podman"])
def test_pulls_through_an_agent_cause_one_run(machine: Machine, tool: str, place: str) -> None:
    before = len(machine.node.runs())
    with running_agent(machine.node) as agent:
        env = {"KEYFERRY_AGENT": agent.socket, "KEYFERRY_PROC": str(machine.folder), **PLACES[place]}
        for _ in range(2):
            done = machine.pull(tool, "--authfile", str(machine.folder / "auth.json"), **env)
            assert done.returncode == 0, done.stderr
    assert len(machine.node.runs()) == before + 1


@pytest.mark.parametrize("host", ["127.0.0.1:443", "127.0.0.1"])
def test_a_default_port_is_installed_as_images_have_it(machine: Machine, tmp_path: Path, host: str) -> None:
    """The helper runs only for the host as the image has it; nobody listens there."""
    node = Node(tmp_path)
    node.provider(matchImages=[host])
    node.recording(auth={host: LOGIN})
    node.load()
    path = str(tmp_path / "auth.json")
    assert run_in_process("bridge", "docker", "install", host, "--docker-config", path).returncode == 0
    env = {"KEYFERRY_CONFIG": str(node.config), "KEYFERRY_BIN_DIR": str(node.bin_dir)}
    words = ("inspect", "--authfile", path, f"docker://{host}/team/app")
    assert machine.run(need("skopeo"), *words, **env).returncode != 0
    assert len(node.runs()) == 1


@pytest.mark.parametrize("tool", ["skopeo", "podman"])
def test_without_the_helper_the_registry_refuses(machine: Machine, tool: str) -> None:
    done = machine.pull(tool, "--authfile", str(machine.folder / "none.json"))
    assert done.returncode != 0
    assert "authentication required" in done.stderr


@pytest.mark.parametrize("tool", ["skopeo", "podman"])
def test_a_helper_for_all_registries(machine: Machine, tool: str, tmp_path: Path) -> None:
    """By registries.conf; for hosts without a provider it says that nothing is found, and the tool goes on."""
    conf = tmp_path / "registries.conf"
    conf.write_text(
        'unqualified-search-registries = []\ncredential-helpers = ["containers-auth.json", "keyferry"]\n'
    )
    original = machine.folder / "registries.conf"
    kept = original.read_text()
    original.write_text(conf.read_text())
    try:
        done = machine.pull(tool, "--authfile", str(machine.folder / "none.json"))
        assert done.returncode == 0, done.stderr
        nobody = machine.pull(
            tool, "--authfile", str(machine.folder / "none.json"), KEYFERRY_CONFIG="/nowhere"
        )
        assert "authentication required" in nobody.stderr
    finally:
        original.write_text(kept)


def test_login_and_logout_work_with_the_helper(machine: Machine) -> None:
    """``store`` and ``erase`` succeed for a registry that is served."""
    env: Mapping[str, str] = {"REGISTRY_AUTH_FILE": str(machine.folder / "auth.json")}
    words = ("login", "--tls-verify=false", "-u", LOGIN[0], "-p", LOGIN[1], machine.registry.host)
    done = machine.run(need("podman"), *words, **env)
    assert done.returncode == 0, done.stderr
    done = machine.run(need("podman"), "logout", machine.registry.host, **env)
    assert done.returncode == 0, done.stderr
