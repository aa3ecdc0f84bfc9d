"""A pod that cannot pull its image: a cluster, the pod's node with a running kubelet, and the registry."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from .account_world import AudienceApi
from .certificates import Authority as Signer
from .commands import Node, run_in_process, run_keyferry
from .cri_server import Field, Message, decode, encode, running_cri
from .cri_server import image as stored
from .fake_cloud import Authority, ConnectProxy, Received, Reply, serving
from .kube import TOKEN, Kube
from .kubelets import Processes, write_config
from .kubernetes_api import Json, account, pod
from .pull_reports import LONG_AGO, Report, stamp, waiting
from .terminal import Terminal

HOST = "registry.example"
NODE = "node1"
READABLE = "pods secrets serviceaccounts events"
PID = "812"
# The system counts the start of a process in hundredths of a second.
_TICK_SECONDS = 0.03


@dataclass
class PodWorld:
    """The pod ``web`` of namespace ``shop`` and all that its pull depends on; ``answer`` is the registry.

    Files and addresses have the names of a real node in all that goes in and comes out: ``names`` has the name for
    each of the world's own.
    """

    folder: Path
    api: AudienceApi
    node: Node
    processes: Processes
    env: dict[str, str]
    names: dict[str, str]
    bundle: Path
    stack: ExitStack
    is_node: bool = True
    is_in_process: bool = False
    has_provider_flags: bool = True
    kubelet: ExitStack = field(default_factory=ExitStack)
    kubelet_pid: int | None = None
    event_ago: float = 12
    kubelet_config: dict[str, object] = field(default_factory=dict)
    reported: list[tuple[Json, tuple[Report, ...]]] = field(default_factory=list)
    answer: Callable[[Received], Reply] = lambda _: Reply(404)

    @property
    def root(self) -> Path:
        """The kubelet's root."""
        return self.folder / "root"

    def add_event(self, message: str) -> None:
        """Add an event of the pod or its container, as its kubelet sent it *event_ago* seconds ago."""
        uid = self.api.objects["", "pods", "shop", "web"]["metadata"]["uid"]  # type: ignore[index] # a map
        involved = {"kind": "Pod", "name": "web", "namespace": "shop", "uid": uid}
        for own, name in self.names.items():
            message = message.replace(name, own)
        reason = "Failed"
        if message.startswith("Unable to retrieve"):
            reason = "FailedToRetrieveImagePullSecret"
        else:
            involved["fieldPath"] = "spec.containers{app}"
        event: Json = {
            "kind": "Event",
            "metadata": {"name": "web.1", "namespace": "shop"},
            "involvedObject": involved,
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": stamp(self.event_ago),
        }
        self.api.add(event)

    def forget_events(self) -> None:
        """Let the pod be a new one, of which there are no events."""
        for place in [place for place in self.api.objects if place[1] == "events"]:
            del self.api.objects[place]

    def report(self, *reports: Report) -> None:
        """Let the kubelet report of the pod that there is now, at ``publish``."""
        self.reported.append((self.api.objects["", "pods", "shop", "web"], reports))

    def publish(self) -> None:
        """Set the status of pods, and add their events, as the kubelet has reported them.

        All that happened in the world before was in an earlier second, which is how exact its times are.
        """
        if self.is_node:
            self._begin_next_second()
        for about, reports in self.reported:
            about["status"] = pod_status(about, [each for each in reports if each.container])
            for each in reports:
                self.api.add(*each.event_documents(about))

    def change_later(self, path: Path) -> None:
        """Let a file have changed two seconds from now, and let them pass."""
        then = time.time() + 2
        os.utime(path, (then, then))
        self._pass(2.1)

    def restart_kubelet_later(self) -> None:
        """Let the kubelet be one that started two seconds from now, by the system's clock, and let them pass."""
        self.kubelet.close()
        self.kubelet_pid = int(PID)
        # Field 22 is the start, counted from that of the system.
        stat = f"{PID} (kubelet) S {'0 ' * 30}".encode()
        self.processes.write(self.kubelet_pid, "kubelet", *self._flags(), stat=stat)
        (self.processes.folder / "stat").write_text(f"btime {int(time.time()) + 2}\n")
        self._pass(2.1)

    def _begin_next_second(self) -> None:
        self._pass(1 - time.time() % 1)

    def _pass(self, seconds: float) -> None:
        """Wait; if commands run in this process, step the clock instead."""
        if not self.is_in_process:
            time.sleep(seconds)
            return
        patch, now = self.stack.enter_context(pytest.MonkeyPatch.context()), time.time
        patch.setattr(time, "time", lambda: now() + seconds)

    def run_runtime(self, images: Mapping[str, str]) -> None:
        """Run a container runtime that has *images*, ids by name, and let the kubelet's config name its socket."""

        def find(message: Message) -> bytes:
            name = decode(message[1][0])[1][0].decode()
            return encode(*(entry(each) for each in images if name in (each, images[each])))

        def entry(name: str) -> Field:
            return stored(images[name], name, digests=[f"{name.rpartition(':')[0]}@{images[name]}"])

        runtime = running_cri(
            Version=lambda _: encode((1, "0.1.0"), (2, "containerd"), (3, "v1.6.20"), (4, "v1")),
            ImageStatus=find,
            ListImages=lambda _: encode(*map(entry, images)),
        )
        server = self.stack.enter_context(runtime)
        self.kubelet_config["containerRuntimeEndpoint"] = server.address
        self.names[server.socket] = "/run/containerd/containerd.sock"

    def age_files(self, ago: float = LONG_AGO) -> None:
        """Let the node's files look as if they were written *ago*; when they were changed stays as it is."""
        then = time.time() - ago
        for top in (self.node.folder, self.root):
            for folder, _, names in os.walk(top):
                for path in (folder, *(os.path.join(folder, name) for name in names)):
                    os.utime(path, (then, then), follow_symlinks=False)

    def start_kubelet(self) -> None:
        """Start the node's kubelet, again if it runs; all files that there are were there before."""
        self.kubelet.close()
        flags = self._flags()
        time.sleep(_TICK_SECONDS)
        self.kubelet_pid = self.kubelet.enter_context(self.processes.kubelet(*flags))
        time.sleep(_TICK_SECONDS)

    def run(self, line: str, **env: str) -> CompletedProcess[str]:
        """Run a command line on the pod's node, or else on a machine without a kubelet."""
        with self._machine() as names:
            run = run_in_process if self.is_in_process else run_keyferry
            done = run(*self._words(line), cwd=self.folder, **{**self.env, **env})
        for own, name in names.items():
            done.stdout = done.stdout.replace(own, name)
            done.stderr = done.stderr.replace(own, name)
        return done

    def show(self, line: str, columns: int) -> str:
        """Run a command line as ``run`` does, on a terminal; return what it wrote there, with colours."""
        command = (sys.executable, "-m", "keyferry", *self._words(line))
        with (
            self._machine() as names,
            Terminal(command, columns=columns, cwd=self.folder, env=self.env) as terminal,
        ):
            raw = terminal.finish().raw
        for own, name in names.items():
            raw = raw.replace(own, name)
        return raw

    def _words(self, line: str) -> list[str]:
        """Return the words after the program's name, with the world's own files and addresses."""
        for own, name in self.names.items():
            line = line.replace(name, own)
        program, *words = shlex.split(line)
        assert program == "keyferry", line
        return words

    @contextmanager
    def _machine(self) -> Iterator[dict[str, str]]:
        """Yield the names of what is on the machine, on which a kubelet runs if it is a node."""
        if not self.is_node:
            yield self.names
            return
        if self.kubelet_pid is not None:
            yield {**self.names, f"process {self.kubelet_pid}": f"process {PID}"}
            return
        with self.processes.kubelet(*self._flags()) as pid:
            yield {**self.names, f"process {pid}": f"process {PID}"}

    def _flags(self) -> list[str]:
        config = write_config(self.folder / "kubelet.json", **self.kubelet_config)
        flags = [f"--hostname-override={NODE}", f"--root-dir={self.root}", f"--config={config}"]
        if not (self.has_provider_flags and self.node.config.exists()):
            return flags
        return [
            *flags,
            f"--image-credential-provider-config={self.node.config}",
            f"--image-credential-provider-bin-dir={self.node.bin_dir}",
        ]


def pod_status(about: Json, reports: Sequence[Report]) -> Json:
    """Return the status of a pod on its node; containers without a report are waiting."""
    spec = about["spec"]
    assert isinstance(spec, dict)
    known = {each.container: each for each in reports}
    status: Json = {}
    for name, field_name in (
        ("initContainers", "initContainerStatuses"),
        ("containers", "containerStatuses"),
    ):
        status[field_name] = [
            known.get(each["name"], Report(waiting("ContainerCreating"), container=each["name"])).status(
                each["image"]
            )
            for each in spec.get(name, [])
        ]
    is_running = all("running" in each.state for each in reports)
    return {
        "phase": "Running" if is_running else "Pending",
        "hostIP": "10.0.0.1",
        "qosClass": "BestEffort",
        "startTime": stamp(LONG_AGO),
        **status,
    }


@contextmanager
def pod_world(folder: Path) -> Iterator[PodWorld]:
    """Yield a world in which nothing has a credential for the pod."""
    signer, authority = Signer(), Authority(folder)
    machine = folder / "machine"
    machine.mkdir()
    with ExitStack() as stack:
        api = stack.enter_context(AudienceApi(signer))
        api.add_user(TOKEN, "bob")
        api.permit(TOKEN, "get list", READABLE, "shop")
        api.permit(TOKEN, "create", "serviceaccounts/token", "shop")
        api.add(account(), pod())
        kube = Kube(folder)
        kube.write(api.url, ca=signer.pem, user={"token": TOKEN})
        world = PodWorld(
            folder, api, Node(machine), Processes(folder / "proc"), {}, {}, authority.bundle, stack
        )
        stack.enter_context(world.kubelet)

        def answer(received: Received) -> Reply:
            return world.answer(received)

        registry = stack.enter_context(serving(answer, authority.context(HOST)))
        proxy = stack.enter_context(ConnectProxy({HOST: registry.port}))
        world.env = {
            "HOME": str(folder),
            "KEYFERRY_PROC": str(world.processes),
            "KEYFERRY_HOST_ROOT": str(machine),
            "KUBECONFIG": str(kube.path),
            "KUBERC": "",
            "HTTPS_PROXY": proxy.url,
            "NO_PROXY": "127.0.0.1",
            "SSL_CERT_FILE": str(authority.bundle),
        }
        world.names = {
            str(world.node.config): "/etc/kubernetes/providers.yaml",
            str(world.node.bin_dir): "/usr/libexec/credential-providers",
            str(world.root): "/var/lib/kubelet",
            str(folder / "kubelet.json"): "/var/lib/kubelet/config.yaml",
            f"{machine}/etc": "/etc",
            proxy.url: "http://proxy.example:3128",
        }
        yield world
