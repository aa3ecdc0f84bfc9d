"""Install, upgrade and uninstall as rendered, with the rights as rendered: what changes on a node, and is undone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from keyferry.bridge.kubelet_install import install_in_front, python_shim
from support import manifests
from support.made_up_nodes import IMAGE, Facts, ImagePrefix, MadeUpNode, wait_for_agent
from support.manifests import UNINSTALL
from support.parts import need, root
from support.plugins import write_executable
from support.shims import build, request

pytestmark = root
SOCKET_FOLDER = "var/lib/kubelet/plugins/keyferry"
AGENTS_USER = 65532
DISTRIBUTIONS = {
    "eks": "ecr-credential-provider",
    "aks": "acr-credential-provider",
    "gke": "auth-provider-gcp",
}


@pytest.fixture(scope="module")
def prefix() -> Iterator[ImagePrefix]:
    """Python with the static shim, as in the image."""
    need("setpriv")
    with tempfile.TemporaryDirectory(prefix="kf-") as name:
        folder = Path(name)
        yield ImagePrefix(folder / "image", build("native", folder).program)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="kf-") as name:
        yield Path(name)


def changes(before: dict[str, Facts], after: dict[str, Facts]) -> dict[str, str]:
    """What is new, changed or gone on the node."""
    words = {True: "new", False: "changed"}
    found = {path: words[path not in before] for path in after if before.get(path) != after[path]}
    return found | {path: "gone" for path in before if path not in after}


def installed(node: MadeUpNode) -> dict[str, str]:
    place = f"{node.bin_dir.relative_to(node.root)}/{node.plugin}"
    return {place: "changed", f"{place}.agent": "new", f"{place}.real": "new", SOCKET_FOLDER: "new"}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_node_is_changed_as_documented_and_left_as_it_was(
    name: str, prefix: ImagePrefix, folder: Path
) -> None:
    node = MadeUpNode(folder, prefix, manifests.helm(*manifests.DISTRIBUTIONS[name]), DISTRIBUTIONS[name])
    before = node.facts()
    for _ in range(2):  # a pod that starts again changes nothing more
        done = node.run("shim")
        assert done.returncode == 0, done.stderr
        assert changes(before, node.facts()) == installed(node)
    shim = node.bin_dir / node.plugin
    assert shim.read_bytes().startswith(b"\x7fELF")
    assert os.readlink(f"{shim}.agent").endswith("/var/lib/kubelet/plugins/keyferry/agent.sock")
    user = node.container("agent")["securityContext"]["runAsUser"]
    assert user == (AGENTS_USER if name == "eks" else 0)
    assert {os.lstat(f"{shim}.agent").st_uid, node.socket.parent.stat().st_uid} == {user}
    assert b'"password": "p"' in node.pull(request(IMAGE))  # without an agent: the plugin
    node.use(manifests.helm(*manifests.DISTRIBUTIONS[name], *UNINSTALL))
    for _ in range(2):  # nor does an uninstallation
        done = node.run("shim")
        assert done.returncode == 0, done.stderr
        assert changes(before, node.facts()) == {}


def test_a_shim_in_front_of_another_plugin_takes_the_former_one_away(
    prefix: ImagePrefix, folder: Path
) -> None:
    """Before that, it is in front of a plugin that the cluster no longer names, and would stay for ever."""
    options = manifests.DISTRIBUTIONS["k3s"]
    node = MadeUpNode(folder, prefix, manifests.helm(*options, "--set", "shim.inFrontOf=mine"), "mine")
    for name in ("other", "foreign"):
        write_executable(node.bin_dir / name, "#!/bin/sh\nexit 1\n")
    install_in_front(str(node.bin_dir), "foreign", python_shim(), "/run/keyferry/agent.sock")
    before = node.facts()
    assert node.run("shim").returncode == 0
    assert changes(before, node.facts()) == installed(node)
    node.plugin = "other"
    node.use(manifests.helm(*options, "--set", "shim.inFrontOf=other"))
    assert node.run("shim").returncode == 0
    assert changes(before, node.facts()) == installed(node)
    node.use(manifests.helm(*options, "--set", "shim.beside=third"))
    assert node.run("shim").returncode == 0
    node.use(manifests.helm(*options, "--set", "shim.inFrontOf=mine"))
    done = node.run("shim")
    assert (done.returncode, "third stays: a kubelet whose config names it" in done.stderr) == (0, True)


def test_agents_serve_while_they_are_upgraded(prefix: ImagePrefix, folder: Path) -> None:
    """The whole life of a node: install, pulls, a surge, an uninstallation that waits for the agent's end."""
    node = MadeUpNode(folder, prefix, manifests.helm(*manifests.DISTRIBUTIONS["aks"]), DISTRIBUTIONS["aks"])
    before = node.facts()
    assert node.run("shim").returncode == 0
    log = folder / "log"
    agents = [node.start("agent", log)]
    try:
        wait_for_agent(node, log)
        assert (node.probe("liveness"), node.probe("readiness")) == (0, 0)
        for _ in range(2):
            assert b'"password":"p"' in node.pull(request(IMAGE))
        assert node.number_of_runs == 1
        assert node.run("shim").returncode == 0  # the pod of the new version, while the old one runs
        agents.append(node.start("agent", log))
        wait_for_agent(node, log, 2)
        stop(agents[0])
        assert b'"password":"p"' in node.pull(request(IMAGE))
        assert node.number_of_runs == 1  # the cache was handed over
        uninstall = manifests.helm(*manifests.DISTRIBUTIONS["aks"], *UNINSTALL)
        node.use(uninstall)
        done = node.run("shim")
        assert (done.returncode, "an agent listens here; stop it first" in done.stderr) == (3, True)
        stop(agents[1])
        assert b'"password": "p"' in node.pull(request(IMAGE))
        assert node.run("shim").returncode == 0
        assert changes(before, node.facts()) == {}
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.kill()
            agent.wait()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_after_an_agent_was_killed_everything_is_still_removed(prefix: ImagePrefix, folder: Path) -> None:
    options = (*manifests.DISTRIBUTIONS["k3s"], "--set", "shim.inFrontOf=mine")
    node = MadeUpNode(folder, prefix, manifests.helm(*options), "mine")
    before = node.facts()
    assert node.run("shim").returncode == 0
    agent = node.start("agent", folder / "log")
    try:
        wait_for_agent(node, folder / "log")
    finally:
        agent.kill()
        agent.wait()
    left = {
        SOCKET_FOLDER: "new",
        f"{SOCKET_FOLDER}/agent.sock": "new",
        f"{SOCKET_FOLDER}/agent.sock.lock": "new",
    }
    assert changes(before, node.facts()) == installed(node) | left
    node.use(manifests.helm(*options, *UNINSTALL))
    assert node.run("shim").returncode == 0
    assert changes(before, node.facts()) == {}


def test_a_shim_beside_the_plugins_is_removed_too(prefix: ImagePrefix, folder: Path) -> None:
    options = ("--set", "shim.beside=keyferry")
    node = MadeUpNode(folder, prefix, manifests.helm(*options), "mine")
    before = node.facts()
    assert node.run("shim").returncode == 0
    place = f"{node.bin_dir.relative_to(node.root)}/keyferry"
    assert changes(before, node.facts()) == {place: "new", f"{place}.agent": "new", SOCKET_FOLDER: "new"}
    node.use(manifests.helm(*options, *UNINSTALL))
    assert node.run("shim").returncode == 0
    assert changes(before, node.facts()) == {}


@pytest.mark.parametrize("place", ["config.yaml", "bin/config.yaml"])
def test_the_entry_of_a_shim_beside_the_plugins_is_added_and_removed(
    place: str, prefix: ImagePrefix, folder: Path
) -> None:
    """In a folder of its own, or in that of the plugins; the rest of the kubelet's config stays, to the letter."""
    config = f"/etc/kubernetes/credential-provider/{place}"
    settings = f"shim.beside=keyferry,shim.matchImages={{*.registry.example}},node.providerConfig={config}"
    node = MadeUpNode(folder, prefix, manifests.helm("--set", settings), "mine")
    before, text = node.facts(), node.at(config).read_text()
    for _ in range(2):  # a pod that starts again changes nothing more
        done = node.run("shim")
        assert done.returncode == 0, done.stderr
        shim = f"{node.bin_dir.relative_to(node.root)}/keyferry"
        added = {shim: "new", f"{shim}.agent": "new", f"{shim}.entry": "new", SOCKET_FOLDER: "new"}
        assert changes(before, node.facts()) == added | {config.lstrip("/"): "changed"}
    names = [each["name"] for each in yaml.safe_load(node.at(config).read_text())["providers"]]
    assert names == ["mine", "keyferry"]
    node.use(manifests.helm("--set", f"{settings},uninstall=true"))
    for _ in range(2):
        done = node.run("shim")
        assert done.returncode == 0, done.stderr
        # It is another file, with the same text, owner and mode.
        assert set(changes(before, node.facts())) <= {config.lstrip("/")}
        assert node.at(config).read_text() == text
    assert node.facts()[config.lstrip("/")][:3] == before[config.lstrip("/")][:3]


def test_a_plugin_that_was_replaced_meanwhile_stays(prefix: ImagePrefix, folder: Path) -> None:
    """The distribution may upgrade its plugin at any time, over the shim."""
    node = MadeUpNode(folder, prefix, manifests.helm(*manifests.DISTRIBUTIONS["gke"]), DISTRIBUTIONS["gke"])
    assert node.run("shim").returncode == 0
    place = node.bin_dir / node.plugin
    place.unlink()
    place.write_text("#!/bin/sh\necho new\n")
    place.chmod(0o755)
    node.use(manifests.helm(*manifests.DISTRIBUTIONS["gke"], *UNINSTALL))
    assert node.run("shim").returncode == 0
    assert sorted(os.listdir(node.bin_dir)) == [node.plugin]
    assert "new" in place.read_text()


def test_a_missing_plugin_is_said_and_nothing_is_changed(prefix: ImagePrefix, folder: Path) -> None:
    node = MadeUpNode(folder, prefix, manifests.helm(*manifests.DISTRIBUTIONS["gke"]), "another")
    before = node.facts()
    done = node.run("shim")
    assert done.returncode == 3
    assert re.search(r"there is no plugin '.*/home/kubernetes/bin/auth-provider-gcp'", done.stderr)
    assert changes(before, node.facts()) == {SOCKET_FOLDER: "new"}


def test_an_uninstalled_pod_waits_for_its_end(prefix: ImagePrefix, folder: Path) -> None:
    node = MadeUpNode(folder, prefix, manifests.helm(*manifests.DISTRIBUTIONS["gke"]), DISTRIBUTIONS["gke"])
    node.use(manifests.helm(*manifests.DISTRIBUTIONS["gke"], *UNINSTALL))
    # Blocked from the start, so that the signal waits too until the program does.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        process = node.start("wait", folder / "log")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    stop(process)
    assert (folder / "log").read_text() == ""
