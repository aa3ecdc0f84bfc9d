"""The containers of the DaemonSet in a real containerd, from the real image, as they are rendered for EKS.

The kubelet is played: folders are mounted, users and capabilities set, probes executed and the shim run as it does
these. The seccomp profile of a runtime is not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import keyferry
from support import manifests, parts
from support.agent_image import BUILD_SECONDS, KEYFERRY, USER, ImageRunner
from support.containerd import PATIENCE_SECONDS
from support.made_up_nodes import Container, Facts, facts_of
from support.plugins import compile_program, provider_entry, write_config
from support.shims import request

pytestmark = [parts.root, pytest.mark.timeout(BUILD_SECONDS)]
PLUGIN = "ecr-credential-provider"
BIN_DIR = "etc/eks/image-credential-provider"
IMAGE = "registry.example/team/app"
REFERENCE = f"localhost/keyferry:{keyferry.__version__}"
# As the clouds' plugins are: static, since the agent's container has neither a shell nor libraries of the node.
SOURCE = r"""
#include <stdio.h>
int main(void) {
    while (getchar() != EOF) {}
    puts("{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\","
         "\"cacheKeyType\":\"Registry\",\"cacheDuration\":\"1h0m0s\","
         "\"auth\":{\"registry.example\":{\"username\":\"u\",\"password\":\"p\"}}}");
    return 0;
}
"""


class Node:
    """A node with containerd, and pods of the DaemonSet on it."""

    def __init__(self, runner: ImageRunner) -> None:
        self.runner = runner
        self.containerd = runner.containerd
        self.root = self.containerd.folder / "eks"
        self.ctr = ["ctr", "-a", str(runner.socket), "-n", "k8s.io"]
        self._started = 0
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    @property
    def socket(self) -> Path:
        """The agent's socket, as the node sees it."""
        return self.root / "var/lib/kubelet/plugins/keyferry/agent.sock"

    def run(self, documents: list[manifests.Document], name: str) -> subprocess.CompletedProcess[str]:
        """Run a container to its end."""
        return subprocess.run(
            self._command(documents, name, self._new_name()),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    def start(self, documents: list[manifests.Document], name: str) -> str:
        """Start a container; return its name."""
        task = self._new_name()
        with (self.containerd.folder / f"{task}.log").open("wb") as log:
            command = self._command(documents, name, task)
            self._running.append((task, subprocess.Popen(command, stdout=log, stderr=log)))
        return task

    def probe(self, task: str, container: Container, kind: str) -> bool:
        """Execute a probe in a running container."""
        words = container[f"{kind}Probe"]["exec"]["command"]
        command = [*self.ctr, "tasks", "exec", "--exec-id", self._new_name(), task, *words]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def signal(self, task: str, signal: str = "SIGTERM") -> None:
        """End a container; the first process of one loses a signal that comes before it has a handler."""
        process = dict(self._running)[task]
        command = [*self.ctr, "tasks", "kill", "--signal", signal, task]

        def has_ended() -> bool:
            subprocess.run(command, capture_output=True, check=False)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                return False
            return True

        wait_for(has_ended, lambda: self.log(task))

    def end(self) -> None:
        """End what still runs."""
        for task, process in self._running:
            if process.poll() is None:
                self.signal(task, "SIGKILL")

    def log(self, task: str) -> str:
        """What a container has printed."""
        return (self.containerd.folder / f"{task}.log").read_text()

    def pull(self) -> dict[str, Any]:
        """Execute the provider as a kubelet does, as root of the node and outside of containers; return its answer."""
        script = 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$1"'
        command = ["unshare", "--mount", "sh", "-c", script, str(self.root), f"/{BIN_DIR}/{PLUGIN}"]
        done = subprocess.run(
            command, input=request(IMAGE), env={"PATH": os.environ["PATH"]}, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return dict(json.loads(done.stdout))

    def _new_name(self) -> str:
        self._started += 1
        return f"kf-{os.getpid()}-{self._started}"

    def _command(self, documents: list[manifests.Document], name: str, task: str) -> list[str]:
        spec = manifests.pod_spec(documents)
        container = next(each for each in manifests.containers(documents) if each["name"] == name)
        volumes = {each["name"]: self._source(each, documents) for each in spec["volumes"]}
        runtime_spec = json.loads(subprocess.check_output([*self.ctr, "oci", "spec"]))
        fill(runtime_spec, container, self.runner.config["Env"], volumes)
        runtime_spec["root"] = {"path": str(self._files(task)), "readonly": True}
        runtime_spec["linux"]["cgroupsPath"] = f"/k8s.io/{task}"
        path = self.containerd.folder / f"{task}.json"
        path.write_text(json.dumps(runtime_spec))
        return [*self.ctr, "run", "--rm", "--config", str(path), task]

    def _files(self, task: str) -> Path:
        """The image's files; the places of mounts are made in them."""
        place = self.containerd.folder / f"{task}.root"
        place.mkdir()
        words = ["images", "mount", "--rw", "--snapshotter", "overlayfs", REFERENCE, str(place)]
        subprocess.run([*self.ctr, *words], check=True, capture_output=True)
        return place

    def _source(self, volume: dict[str, Any], documents: list[manifests.Document]) -> Path:
        """Make a volume as a kubelet does; return where it is."""
        if "hostPath" in volume:
            path: Path = self.root / volume["hostPath"]["path"].lstrip("/")
            if volume["hostPath"]["type"] == "DirectoryOrCreate":
                path.mkdir(exist_ok=True)
            assert path.exists()
            return path
        path = self.containerd.folder / f"volume-{volume['name']}"
        path.mkdir(exist_ok=True)
        if "configMap" in volume:
            (config,) = (each for each in documents if each["kind"] == "ConfigMap")
            (path / "agent.yaml").write_text(config["data"]["agent.yaml"])
        else:
            path.chmod(0o777)
        return path


def fill(spec: dict[str, Any], container: Container, environ: list[str], volumes: dict[str, Path]) -> None:
    """Put a container into the document that a runtime takes, as a kubelet and its runtime do."""
    variables = {each["name"]: each["value"] for each in container.get("env", ())}
    given = [KEYFERRY, *container.get("args", ())]
    words = [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word) for word in given]
    context = container["securityContext"]
    capabilities = [f"CAP_{each}" for each in context["capabilities"].get("add", ())]
    own = [f"{name}={value}" for name, value in variables.items()]
    spec["process"] |= {
        "args": container.get("command", words),
        "env": [each for each in environ if each.partition("=")[0] not in variables] + own,
        "user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]},
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
        "noNewPrivileges": not context["allowPrivilegeEscalation"],
        "terminal": False,
    }
    spec["linux"]["namespaces"] = [each for each in spec["linux"]["namespaces"] if each["type"] != "network"]
    for mount in container.get("volumeMounts", ()):
        bind = {"type": "bind", "source": str(volumes[mount["name"]]), "destination": mount["mountPath"]}
        spec["mounts"].append(bind | {"options": ["rbind", "ro" if mount.get("readOnly") else "rw"]})


@pytest.fixture
def node(runner: ImageRunner) -> Iterator[Node]:
    """A node of EKS: the plugin, its config, and the folder of another driver."""
    made = Node(runner)
    folder = made.root / BIN_DIR
    folder.mkdir(parents=True)
    compile_program(folder / PLUGIN, SOURCE, static=True)
    write_config(folder / "config.json", [provider_entry(PLUGIN, matchImages=["registry.example"])])
    (made.root / "proc").mkdir()
    (made.root / "var/lib/kubelet/plugins/csi.example").mkdir(parents=True)
    yield made
    made.end()


def test_a_node_of_eks_from_installation_to_removal(node: Node) -> None:
    eks = manifests.DISTRIBUTIONS["eks"]
    documents, uninstall = manifests.helm(*eks), manifests.helm(*eks, *manifests.UNINSTALL)
    (agent,) = manifests.pod_spec(documents)["containers"]
    before: dict[str, Facts] = facts_of(node.root)

    done = node.run(documents, "shim")
    assert done.returncode == 0, done.stderr
    assert set(facts_of(node.root)) - set(before) == {
        *(f"{BIN_DIR}/{PLUGIN}.{suffix}" for suffix in ("agent", "real")),
        "var/lib/kubelet/plugins/keyferry",
    }
    assert node.pull()["cacheDuration"] == "1h0m0s"  # the plugin's own

    first = node.start(documents, "agent")
    wait_for(lambda: node.probe(first, agent, "readiness"), lambda: node.log(first))
    assert node.probe(first, agent, "liveness")
    assert node.socket.stat().st_uid == USER
    assert node.pull()["cacheDuration"] == "0s"  # the agent's

    assert node.run(documents, "shim").returncode == 0
    inode = node.socket.stat().st_ino
    second = node.start(documents, "agent")
    wait_for(lambda: node.socket.stat().st_ino != inode, lambda: node.log(second))
    node.signal(first)
    answer = node.pull()
    assert (answer["cacheDuration"], answer["auth"]["registry.example"]["password"]) == ("0s", "p")

    assert "an agent listens here; stop it first" in node.run(uninstall, "shim").stderr
    node.signal(second)
    assert node.pull()["cacheDuration"] == "1h0m0s"
    done = node.run(uninstall, "shim")
    assert done.returncode == 0, done.stderr
    assert facts_of(node.root) == before
    waiting = node.start(uninstall, "wait")
    wait_for(lambda: is_running(node, waiting), lambda: node.log(waiting))
    node.signal(waiting)
    assert node.log(waiting) == ""


def is_running(node: Node, task: str) -> bool:
    listed = subprocess.check_output([*node.ctr, "tasks", "list"], text=True)
    return bool(re.search(rf"^{task}\s+\d+\s+RUNNING", listed, re.MULTILINE))


def wait_for(condition: Callable[[], bool], log: Callable[[], str]) -> None:
    """Wait for an effect of a container; show what it has printed if that does not happen."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, log()
        time.sleep(0.1)
