"""A folder that stands for the file system of a node, and the containers of a pod run on it as they are rendered."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import keyferry
from support import manifests
from support.plugins import provider_entry, wait_until, write_config, write_executable

PROBE = manifests.DEPLOY / "container" / "probe.py"
IMAGE = "registry.example/team/app"
_PLUGIN = """\
#!/bin/sh
cat > /dev/null
cat {files} > /dev/null || exit 1
echo run >> {runs}
echo '{{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
"cacheKeyType": "Registry", "cacheDuration": "1h",
"auth": {{"registry.example": {{"username": "u", "password": "p"}}}}}}'
"""
Container = dict[str, Any]
# What tells whether a file is the same: kind and mode, owner, group, inode, and what is in it.
Facts = tuple[int, int, int, int, bytes]


class ImagePrefix:
    """An environment of Python like the image's: its own prefix, in which the static shim is."""

    def __init__(self, folder: Path, shim: bytes) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(sys.executable)
        (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(sys.executable)}\n")
        write_executable(_made(folder / "lib" / "keyferry") / f"keyferry-shim-{os.uname().machine}", shim)

    def command(self, container: Container) -> list[str]:
        """Return what a container executes; its image's entry point is keyferry."""
        python = str(self.folder / "bin" / "python")
        if "command" in container:
            assert container["command"][0] == "python"
            return [python, *container["command"][1:]]
        return [python, "-m", "keyferry"]

    @property
    def environ(self) -> dict[str, str]:
        """Where that Python finds what is installed for the tests."""
        packages = [os.path.dirname(os.path.dirname(keyferry.__file__)), *filter(os.path.isdir, sys.path)]
        return {"PYTHONPATH": os.pathsep.join(packages), "PATH": os.environ["PATH"]}


class MadeUpNode:
    """A node of a distribution: the files that its pods mount, a plugin, and a folder of another driver."""

    def __init__(
        self, folder: Path, prefix: ImagePrefix, documents: list[manifests.Document], plugin: str
    ) -> None:
        self.root = folder / "node"
        self.runs = folder / "runs"
        self.prefix = prefix
        self.plugin = plugin
        self.spec = manifests.pod_spec(documents)
        self.config = folder / "agent.yaml"
        (config,) = (each for each in documents if each["kind"] == "ConfigMap")
        self.config.write_text(config["data"]["agent.yaml"])
        _made(self.root / "var/lib/kubelet/plugins/csi.example")
        paths = {
            each["name"]: self.at(each["hostPath"]["path"])
            for each in self.spec["volumes"]
            if "hostPath" in each
        }
        self.socket = paths["socket"] / "agent.sock"
        self.bin_dir = _made(paths["bin-dir"])
        self._write_files()

    def _write_files(self) -> None:
        files = [
            each["hostPath"]["path"] for each in self.spec["volumes"] if each["name"].startswith("node-")
        ]
        for path in files:
            (_made(self.at(path).parent) / os.path.basename(path)).touch(0o600)
        named = " ".join(str(self.at(each)) for each in files) or "/dev/null"
        write_executable(self.bin_dir / self.plugin, _PLUGIN.format(files=named, runs=self.runs))
        config = self.at(self.variables("agent")["KEYFERRY_CONFIG"])
        entry = provider_entry(self.plugin, matchImages=["registry.example"])
        write_config(_made(config.parent) / config.name, [entry])

    def at(self, path: str) -> Path:
        """Return where a path of the node is here."""
        return self.root / path.lstrip("/")

    def use(self, documents: list[manifests.Document]) -> None:
        """Take other objects, as an upgrade or an uninstallation does."""
        self.spec = manifests.pod_spec(documents)

    def container(self, name: str) -> Container:
        """Return a container of the pod."""
        every = [*self.spec.get("initContainers", ()), *self.spec["containers"]]
        return dict(next(each for each in every if each["name"] == name))

    def variables(self, name: str) -> dict[str, str]:
        """Return the environment of a container, as it is rendered."""
        return {each["name"]: each["value"] for each in self.container(name).get("env", ())}

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a container to its end, as a kubelet does: folders that are to be created first, then the program."""
        self._mount()
        words, environ = self._process(name)
        return subprocess.run(
            words, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )

    def start(self, name: str, log: Path) -> subprocess.Popen[bytes]:
        """Start a container."""
        self._mount()
        words, environ = self._process(name)
        with log.open("ab") as stream:
            return subprocess.Popen(
                words, env=environ, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )

    def probe(self, kind: str) -> int:
        """Run a probe of the agent's container; return its exit status."""
        program, word = self.container("agent")[f"{kind}Probe"]["exec"]["command"]
        assert program == "keyferry-probe"
        words = [sys.executable, str(PROBE), word]
        return subprocess.run(
            words, env=self._process("agent")[1], capture_output=True, check=False
        ).returncode

    def pull(self, request: bytes) -> bytes:
        """Execute the provider as a kubelet does; return its answer."""
        # The link beside the shim has the path of the node, which is not here.
        environ = {"KEYFERRY_AGENT": str(self.socket), "PATH": os.environ["PATH"]}
        command = [str(self.bin_dir / self.plugin)]
        return subprocess.run(command, input=request, env=environ, stdout=subprocess.PIPE, check=True).stdout

    @property
    def number_of_runs(self) -> int:
        """How often the plugin has run."""
        return self.runs.read_text().count("\n") if self.runs.exists() else 0

    def facts(self) -> dict[str, Facts]:
        """Return everything there is on the node."""
        return facts_of(self.root)

    def _mount(self) -> None:
        for volume in self.spec["volumes"]:
            host_path = volume.get("hostPath", {})
            path = self.at(host_path.get("path", "/"))
            if host_path.get("type") == "DirectoryOrCreate":
                path.mkdir(mode=0o755, exist_ok=True)
            kind = path.is_file() if host_path.get("type") == "File" else path.is_dir()
            assert kind, f"a kubelet would not start the pod: {path}"

    def _process(self, name: str) -> tuple[list[str], dict[str, str]]:
        container = self.container(name)
        variables = self.variables(name)
        environ = {key: self._inside(container, value) for key, value in variables.items()}
        words = [
            re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word)
            for word in container.get("args", ())
        ]
        words = [self._inside(container, word) for word in words]
        own = {
            **self.prefix.environ,
            "KEYFERRY_AGENT_CONFIG": str(self.config),
            "KEYFERRY_PROC": str(self.root),
        }
        return [*_limits(container), *self.prefix.command(container), *words], own | environ

    def _inside(self, container: Container, text: str) -> str:
        """Return a path of a container as it is here, if it is in one of the container's mounts."""
        mounts = [each["mountPath"] for each in container.get("volumeMounts", ())]
        is_mounted = any(text == each or text.startswith(f"{each}/") for each in mounts)
        return str(self.at(text)) if is_mounted else text


def wait_for_agent(node: MadeUpNode, log: Path, number: int = 1) -> None:
    """Wait until so many agents have said that they serve."""
    wait_until(lambda: log.exists() and log.read_text().count('"event": "ready"') >= number, "the agent")
    assert node.probe("readiness") == 0


def _limits(container: Container) -> list[str]:
    """Return a command that takes the capabilities from the next one that the container does not have.

    The user stays: another one might not be able to read what is installed for the tests.
    """
    added = "".join(
        f",+{each.lower()}" for each in container["securityContext"]["capabilities"].get("add", ())
    )
    return ["setpriv", f"--bounding-set=-all{added}", "--inh-caps=-all", "--no-new-privs"]


def facts_of(root: Path) -> dict[str, Facts]:
    """Return everything there is below a folder, by path; of folders neither times nor sizes."""
    return {str(path.relative_to(root)): _facts(path) for path in sorted(root.rglob("*"))}


def _facts(path: Path) -> Facts:
    found = path.lstat()
    content = b""
    if stat.S_ISLNK(found.st_mode):
        content = os.fsencode(os.readlink(path))
    elif stat.S_ISREG(found.st_mode):
        content = path.read_bytes()
    return found.st_mode, found.st_uid, found.st_gid, found.st_ino, content


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
