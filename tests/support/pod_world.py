"""A pod that cannot pull its image: a cluster, the pod's node with a running kubelet, and the registry."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

from .account_world import AudienceApi
from .certificates import Authority as Signer
from .commands import Node, run_keyferry
from .fake_cloud import Authority, ConnectProxy, Received, Reply, serving
from .kube import TOKEN, Kube
from .kubelets import Processes, write_config
from .kubernetes_api import Json, account, pod
from .terminal import Terminal

HOST = "registry.example"
NODE = "node1"
READABLE = "pods secrets serviceaccounts events"
PID = "812"


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
    is_node: bool = True
    kubelet_config: dict[str, object] = field(default_factory=dict)
    answer: Callable[[Received], Reply] = lambda _: Reply(404)

    @property
    def root(self) -> Path:
        """The kubelet's root."""
        return self.folder / "root"

    def add_event(self, message: str) -> None:
        """Add an event of the pod, as its kubelet sends it."""
        uid = self.api.objects["", "pods", "shop", "web"]["metadata"]["uid"]  # type: ignore[index] # a map
        event: Json = {
            "kind": "Event",
            "metadata": {"name": "web.1", "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop", "uid": uid},
            "type": "Warning",
            "reason": "Failed",
            "message": message,
            "lastTimestamp": "2026-11-16T10:00:00Z",
        }
        self.api.add(event)

    def run(self, line: str) -> CompletedProcess[str]:
        """Run a command line on the pod's node, or else on a machine without a kubelet."""
        with self._machine() as names:
            done = run_keyferry(*self._words(line), cwd=self.folder, **self.env)
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
        with self.processes.kubelet(*self._flags()) as pid:
            yield {**self.names, f"process {pid}": f"process {PID}"}

    def _flags(self) -> list[str]:
        config = write_config(self.folder / "kubelet.json", **self.kubelet_config)
        flags = [f"--hostname-override={NODE}", f"--root-dir={self.root}", f"--config={config}"]
        if not self.node.config.exists():
            return flags
        return [
            *flags,
            f"--image-credential-provider-config={self.node.config}",
            f"--image-credential-provider-bin-dir={self.node.bin_dir}",
        ]


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
        world = PodWorld(folder, api, Node(machine), Processes(folder / "proc"), {}, {}, authority.bundle)

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
