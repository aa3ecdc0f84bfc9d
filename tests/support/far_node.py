"""A node of the API server for tests, whose pods are real processes that run keyferry.

Its agent's pod, if it has one, has the provider config and the plugins where the chart mounts them; a debug pod has the
whole node's files below ``/host``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from .certificates import Authority
from .commands import Node, run_in_process
from .kube import TOKEN, Kube
from .kube_commands import Done
from .kubernetes_api import Json, KubernetesApi, account, pod
from .kubernetes_exec import Exec, Finished
from .plugin_forks import run_keyferry_forked
from .pod_world import PodWorld

NODE = "node1"
AGENT_LABELS = {"app.kubernetes.io/name": "keyferry"}
# Variables of the caller's machine.
_CALLERS = ("KEYFERRY_AGENT", "KEYFERRY_CONFIG", "KEYFERRY_BIN_DIR", "KUBECONFIG", "KUBERC")


@dataclass
class FarNode:
    """A node with providers: ``files`` has them. ``run`` what is executed in its pods, and how often."""

    api: KubernetesApi
    files: Node
    name: str = NODE
    commands: list[tuple[str, ...]] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    # What the pods say in place of keyferry.
    says: Finished | None = None
    # The same, to each command.
    answers: Callable[[tuple[str, ...]], Finished] | None = None
    # What they write on standard error beside what keyferry writes.
    notes: bytes = b""
    # A pod that waits: the reason and message of its containers.
    waits: tuple[str, str] | None = None
    # The same before they are run, each shown until it was asked for.
    waits_first: tuple[tuple[str, str], ...] = ()
    # The reason and message with which they end, and their exit code, in place of a run; such a one has no log.
    ends: tuple[str, str, int] | None = None
    is_slow: bool = False
    # The socket of its container runtime, and its kubelet's root; without them neither is seen.
    cri: str = ""
    # The folder that a debug pod has as its host's root: then its files are found as on a node.
    host_root: str = ""
    root: str = ""
    # The folder of its processes, by which a debug pod finds its kubelet with its files, its runtime and its records.
    processes: str = ""

    def add_agent(
        self, namespace: str = "kube-system", name: str = "keyferry-abcde", **metadata: object
    ) -> Json:
        """Add the pod of a node agent, as the chart's DaemonSet makes it."""
        document = pod(name, namespace, nodeName=self.name)
        owner = {
            "kind": "DaemonSet",
            "name": "keyferry",
            "controller": True,
            "uid": "d",
            "apiVersion": "apps/v1",
        }
        document["metadata"] = {
            "name": name,
            "namespace": namespace,
            "labels": AGENT_LABELS,
            "ownerReferences": [owner],
            **metadata,
        }
        document["spec"] = {"nodeName": self.name, "containers": [{"name": "agent", "image": "keyferry"}]}
        document["status"] = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "agent", "state": {"running": {}}}],
        }
        self.api.add(document)
        self.api.exec.run = self.run_in_agent
        return document

    def run_in_agent(self, asked: Exec) -> Finished:
        """Run a command in the agent's container, with the variables that the chart sets."""
        assert asked.container == "agent"
        return self._run(asked.command, self._variables_of_the_chart())

    def _variables_of_the_chart(self) -> dict[str, str]:
        return {"KEYFERRY_CONFIG": str(self.files.config), "KEYFERRY_BIN_DIR": str(self.files.bin_dir)}

    def _variables_of_a_debug_pod(self) -> dict[str, str]:
        if self.processes:
            return {"KEYFERRY_PROC": self.processes}
        return {} if self.host_root else self._variables_of_the_chart()

    def start(self, made: Json) -> None:
        """Run a pod that was made, as a kubelet does: its status changes, and each container has a log."""
        self.pods.append(made)
        threading.Thread(target=self._run_pod, args=(made,), daemon=True).start()

    def _run_pod(self, made: Json) -> None:
        spec = made["spec"]
        assert isinstance(spec, dict)
        if spec["nodeName"] != self.name:
            return
        statuses: list[Json] = []
        for reason, message in self.waits_first:
            self._show(made, {"waiting": {"reason": reason, "message": message}})
            self._wait_until_asked(made_name(made))
        if self.waits is not None:
            reason, message = self.waits
            self._show(made, {"waiting": {"reason": reason, "message": message}})
            return
        if self.ends is not None:
            reason, message, code = self.ends
            ended = {"reason": reason, "message": message, "exitCode": code}
            self._show(made, {"terminated": ended}, "Failed")
            return
        made["status"] = {"phase": "Running", "containerStatuses": []}
        while self.is_slow:
            time.sleep(0.02)
        for each in spec["containers"]:
            done = self._run(tuple(each["command"]), self._variables_of_a_debug_pod())
            self.api.logs[str(made_name(made)), each["name"]] = done.stderr + done.stdout
            statuses.append({"name": each["name"], "state": {"terminated": {"exitCode": done.code}}})
        is_well = all(each["state"]["terminated"]["exitCode"] == 0 for each in statuses)  # type: ignore[index] # made above
        made["status"] = {"phase": "Succeeded" if is_well else "Failed", "containerStatuses": statuses}

    def _show(self, made: Json, state: Json, phase: str = "Pending") -> None:
        """Give all containers of a pod a state."""
        statuses = [{"name": each["name"], "state": state} for each in made["spec"]["containers"]]  # type: ignore[index] # a pod
        made["status"] = {"phase": phase, "containerStatuses": statuses}

    def _wait_until_asked(self, name: str) -> None:
        """Wait until the pod was asked for once more, and answered."""
        before = len(self.api.seen)
        while not any(seen.method == "GET" and name in seen.path for seen in self.api.seen[before:]):
            time.sleep(0.02)

    def _run(self, command: tuple[str, ...], env: Mapping[str, str]) -> Finished:
        self.commands.append(command)
        if self.says is not None:
            return self.says
        if self.answers is not None:
            return self.answers(command)
        program, *words = command
        assert program == "keyferry"
        # What isolates a test from this machine stays.
        clean = {name: value for name, value in os.environ.items() if name not in _CALLERS}
        env = {**clean, "HOME": str(self.files.folder), "NO_COLOR": "1", **env}
        code, stdout, stderr = run_keyferry_forked(self._own_paths(words), env)
        return Finished(code, stdout.encode(), self.notes + stderr.encode())

    def _own_paths(self, words: list[str]) -> list[str]:
        """Return a command line with this node's own paths, in place of what is found below ``/host``."""
        own = list(words)
        if "--host-root" in own:
            at = own.index("--host-root")
            assert own[at + 1] == "/host"
            own[at : at + 2] = ["--host-root", self.host_root] if self.host_root else []
        if self.cri and "--cri" in own:
            own[own.index("--cri") + 1] = self.cri
            own += ["--root", self.root, "--policy", "AlwaysVerify"]
        return [*own, "--root", self.root] if self.root and own[0] == "records" else own


def made_name(made: Json) -> str:
    """Return the name of a pod."""
    metadata = made["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


@dataclass
class FarCluster:
    """A server with the pod ``web`` of namespace ``shop`` and its node; bob may read the pod, and ask the node.

    Commands run as bob does it, on a machine without a kubelet.
    """

    api: KubernetesApi
    node: FarNode
    kube: Kube

    @property
    def env(self) -> dict[str, str]:
        """The environment of bob's commands."""
        return {"HOME": str(self.kube.folder), "KUBECONFIG": str(self.kube.path), "KUBERC": ""}

    def run(self, *words: str) -> Done:
        """Run a command of keyferry."""
        return run_in_process(*words, cwd=None, **self.env)

    def explain(self, *words: str) -> Done:
        """Run ``keyferry explain`` of the pod, asking its node."""
        return self.run("explain", "pod/web", "-n", "shop", "--on-node", *words)


@contextmanager
def far_cluster(folder: Path) -> Iterator[FarCluster]:
    """Yield a cluster whose node has neither an agent nor a provider."""
    with KubernetesApi(_authority()) as api:
        api.add_user(TOKEN, "bob")
        api.permit(TOKEN, "get list", "pods secrets serviceaccounts events", "shop")
        permit_asking_nodes(api)
        api.add(account(), account(namespace="default"), pod())
        (folder / "kube").mkdir()
        kube = Kube(folder / "kube")
        kube.write(api.url, ca=_authority().pem, user={"token": TOKEN})
        yield FarCluster(api, far_node(api, folder / "node"), kube)


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarCluster]:
    """Such a cluster."""
    shorten_pauses(monkeypatch)
    with far_cluster(tmp_path) as found:
        yield found


def shorten_pauses(patch: pytest.MonkeyPatch) -> None:
    """Let whoever waits for a debug pod look at it often."""
    for name in ("POLL_SECONDS", "DELETE_PAUSE_SECONDS"):
        patch.setattr(f"keyferry.workloads.debug_pod.{name}", 0.05)


@cache
def _authority() -> Authority:
    return Authority()


def permit_asking_nodes(api: KubernetesApi) -> None:
    """Permit bob to ask nodes, through the pods of their agents in ``kube-system`` and debug pods in ``default``."""
    api.permit(TOKEN, "list", "pods", "")
    api.permit(TOKEN, "get create", "pods/exec", "kube-system")
    api.permit(TOKEN, "get list create delete", "pods", "default")
    api.permit(TOKEN, "get", "pods/log", "default")


def far_node(api: KubernetesApi, folder: Path, name: str = NODE) -> FarNode:
    """Return a node whose pods are run, without an agent and without providers."""
    folder.mkdir(exist_ok=True)
    node = FarNode(api, Node(folder), name)
    api.on_pod = node.start
    return node


def leave_node(world: PodWorld) -> FarNode:
    """Let the caller be on another machine, and may ask the pod's node; return that node, which has no agent."""
    world.is_node = False
    shorten_pauses(world.stack.enter_context(pytest.MonkeyPatch.context()))
    for name in ("KEYFERRY_PROC", "KEYFERRY_HOST_ROOT"):
        del world.env[name]
    permit_asking_nodes(world.api)
    world.api.add(account(namespace="default"))
    node = FarNode(world.api, world.node, NODE, processes=str(world.processes))
    world.api.on_pod = node.start
    return node
