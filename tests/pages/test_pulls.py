"""The examples of docs/pulls.md, and of the collectors in docs/metrics.md.

They run in namespaces in which the sockets of container runtimes and the kubelet's root are where the pages have them.
The registry is real; the runtime is a server that answers every pull.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import Node
from support.cri_server import CriServer, Message, decode, encode, image, running_cri
from support.images import build, push
from support.kubelets import Processes
from support.pages import Machine, blocks
from support.parts import root
from support.pulling import intents_in, records_in
from support.records import open_quickly, secret, with_secrets
from support.registry import Registry, basic, running

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="mounts the paths of a node for itself"),
    root,
]
USER, PASSWORD = "robot", "kf-marked-word"
HOST = "registry.example"
REF = f"sha256:{'a' * 64}"
# Where the pages have them.
CONFIG, BIN_DIR = "/etc/kubernetes/providers.yaml", "/usr/libexec/kubernetes/plugins"
MOUNTS = """\
mount -t tmpfs none /run && mkdir /run/containerd /run/crio
ln -s {socket} /run/containerd/containerd.sock && ln -s {socket} /run/crio/crio.sock
mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet && mount --bind {kubelet} /var/lib/kubelet
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("registry")) as server:
        server.set_users({USER: PASSWORD})
        push(server, "team/app", "v1", build(b"app"), basic(USER, PASSWORD))
        yield server


@pytest.fixture(scope="module")
def runtime() -> Iterator[CriServer]:
    """A runtime that lists what it was asked to pull, and another image; each pull is as if it were the first."""
    pulled: list[str] = []

    def pull(request: Message) -> bytes:
        pulled.append(decode(request[1][0])[1][0].decode())
        return encode((1, REF))

    def every(_: Message) -> bytes:
        return encode(image(REF, "registry.example/pause:3", *pulled))

    with running_cri(PullImage=pull, ImageStatus=lambda _: b"", ListImages=every) as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, registry: Registry, runtime: CriServer) -> Machine:
    """A node without a kubelet: a provider, a pod and its secret, and the records of a pull."""
    login = {"username": USER, "password": PASSWORD}
    node = Node(tmp_path).add("acme", [registry.host], json.dumps({registry.host: login}))
    config = json.dumps({"auths": {registry.host: login}})
    (tmp_path / "config.json").write_text(config)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "pod-uid"},
        "spec": {
            "serviceAccountName": "default",
            "imagePullSecrets": [{"name": "regcred"}],
            "containers": [{"name": "app", "image": f"{registry.host}/team/app:v1"}],
        },
    }
    held = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "regcred", "namespace": "shop", "uid": "secret-uid"},
        "stringData": {".dockerconfigjson": config},
    }
    (tmp_path / "pod.yaml").write_text(json.dumps(pod))
    (tmp_path / "secret.yaml").write_text(json.dumps(held))
    kubelet = tmp_path / "kubelet"
    records = open_quickly(kubelet)
    records.record_pulled(f"{registry.host}/team/app:v1", REF, with_secrets(secret("regcred")))
    records.close()
    mounts = MOUNTS.format(socket=runtime.socket, kubelet=kubelet)
    names = {registry.host: HOST, str(node.config): CONFIG, str(node.bin_dir): BIN_DIR}
    env = {
        "KEYFERRY_CONFIG": str(node.config),
        "KEYFERRY_BIN_DIR": str(node.bin_dir),
        "KEYFERRY_PROC": str(Processes(tmp_path / "proc")),
    }
    return Machine(tmp_path, names, mounts=mounts, **env)


def test_the_commands_about_pulls(machine: Machine) -> None:
    pulls, _records = blocks("docs/pulls.md", "sh")
    machine.show(next(each for each in blocks("docs/pulls.md", "console") if HOST in each.first))
    output = machine.run(pulls)
    assert output.count(f"{HOST}/team/app:v1 ") >= len(pulls.text.splitlines())
    assert (machine.folder / "app" / "oci-layout").exists()
    assert list(records_in(machine.folder / "node")) == [REF]
    assert PASSWORD not in output


def test_the_python_about_pulls(machine: Machine) -> None:
    output = machine.python(
        *(each.text for each in blocks("docs/pulls.md", "python")[:-1]), "print(outcome.action)"
    )
    assert output.endswith("pulled\n")
    assert (machine.folder / "app-layout" / "oci-layout").exists()
    assert intents_in(machine.folder / "node") == []
    assert PASSWORD not in output


def test_the_commands_about_records(machine: Machine) -> None:
    """Each shows something, and none of them changes a record."""
    block = blocks("docs/pulls.md", "sh")[-1]
    before = records_in(machine.folder / "kubelet")
    for line in block.text.splitlines():
        done = machine.shell(line)
        assert done.returncode in (0, 1), f"{line}\n{done.stdout}"
        assert done.stdout, line
    assert records_in(machine.folder / "kubelet") == before


# What a program has at hand that calls these.
GIVEN = """
import time
from keyferry import StoredImage, load_providers
image, image_ref = "registry.example/team/app:v1", "sha256:1"
providers = load_providers("/etc/kubernetes/providers.yaml", "/usr/libexec/kubernetes/plugins")
credentials = providers.lookup(image).credentials
credential = credentials[0]
list_images = lambda: [StoredImage(id=image_ref, tags=(image,))]
image_ids, begun_ns = {image_ref}, time.time_ns()
"""


def test_the_python_about_records(machine: Machine) -> None:
    example = blocks("docs/pulls.md", "python")[-1]
    output = machine.python(GIVEN, example.text)
    assert "policy" in output
    assert "sha256:1" in records_in(machine.folder / "node")
    assert intents_in(machine.folder / "node") == []


def test_the_folder_of_the_page_about_records(machine: Machine) -> None:
    """It has the names that the page shows, and no others."""
    shown = blocks("docs/pulls.md", "text")[0].text
    top, *lines = shown.splitlines()
    assert top == "/var/lib/kubelet/image_manager/"
    records = open_quickly(machine.folder / "kubelet")
    records.record_intent("registry.example/other")
    folder = machine.folder / "kubelet" / "image_manager"
    found = {str(path.relative_to(folder)).partition("-")[0] for path in folder.rglob("*") if path.is_file()}
    assert found == {line.split()[0].partition("-")[0] for line in lines}
    records.close()
    shutil.rmtree(folder)


def test_the_collectors_of_the_page_about_metrics(machine: Machine) -> None:
    given = """
from keyferry import load_providers, load_records
providers = load_providers("/etc/kubernetes/providers.yaml", "/usr/libexec/kubernetes/plugins")
records = load_records("./node")
"""
    shown = "from prometheus_client import generate_latest; print(generate_latest(REGISTRY).decode())"
    output = machine.python(given, *(each.text for each in blocks("docs/metrics.md", "python")), shown)
    for name in (
        "keyferry_cache_",
        "rest_client_exec_plugin_call_total",
        "kubelet_imagemanager_ondisk_pullintents",
    ):
        assert f"# TYPE {name}" in output, name
