"""The agent's image, built once for all tests, and containers of it in a real containerd."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.containerd import PATIENCE_SECONDS, Containerd
from support.locks import locked
from support.parts import lacking, need

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "deploy" / "container"
CACHE = ROOT / ".cache" / "image"
USER = 65532
PREFIX = "/opt/keyferry"
KEYFERRY = f"{PREFIX}/bin/keyferry"
PROBE = f"{PREFIX}/bin/keyferry-probe"
SBOM = f"{PREFIX}/share/sbom.cdx.json"
SOCKET_FOLDER = Path("/run/keyferry")
# What a test may take that builds the image, or waits until another has built it, on a busy machine.
BUILD_SECONDS = 1800
# What containerd gives by default, and Kubernetes takes away with "drop: [ALL]".
_CAPABILITIES = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID SETPCAP "
    "SETUID SYS_CHROOT"
)
Mounts = Mapping[Path, tuple[Path, str]]


def build_image(folder: Path, *before: str, **environ: str) -> str:
    """Build the image into a folder as ``make image`` does, by a command behind *before*; return its digest."""
    for program in ("buildah", "mmdebstrap"):
        need(program)
    if os.geteuid() != 0:
        lacking("root")
    # Not the last commit's, which the image of another test run may be older than.
    made = {"SOURCE_DATE_EPOCH": "1700000000", "SOURCE_REVISION": "tests"}
    done = subprocess.run(
        [*before, "sh", str(RECIPE / "image.sh"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | made | environ,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def agent_image() -> Path:
    """Return the image as an archive; the first caller builds it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "lock"):
        sources = [path for path in (ROOT / "src").rglob("*") if path.suffix != ".pyc" and path.is_file()]
        others = (
            "native/shim.c",
            "pyproject.toml",
            "hatch_build.py",
            "README.md",
            "LICENSE",
            "tools/lock.txt",
        )
        recipe = [*RECIPE.iterdir(), *(ROOT / each for each in others)]
        archive = CACHE / f"tests-{_key([*sources, *recipe])}" / "keyferry.oci.tar"
        if not archive.exists():
            for old in CACHE.glob("tests-*"):
                shutil.rmtree(old)
            build_image(archive.parent)
    return archive


def _key(paths: list[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(f"{path}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


@dataclass(frozen=True)
class Archive:
    """An image's archive, read: its config and, by path, the entries and contents of its layers."""

    digest: str
    config: dict[str, Any]
    annotations: dict[str, str]
    entries: dict[str, tarfile.TarInfo]
    contents: dict[str, bytes]


def read_archive(path: Path) -> Archive:
    """Read an archive, and check that every blob has the digest that it is called by."""
    with tarfile.open(path) as archive:
        files = [each for each in archive if each.isfile()]
        blobs = {each.name: archive.extractfile(each).read() for each in files}  # type: ignore[union-attr]  # files only
    for name, data in blobs.items():
        assert not name.startswith("blobs/") or name.endswith(hashlib.sha256(data).hexdigest())
    index = json.loads(blobs["index.json"])
    manifest = json.loads(_blob(blobs, index["manifests"][0]))
    entries: dict[str, tarfile.TarInfo] = {}
    contents: dict[str, bytes] = {}
    for layer in manifest["layers"]:
        _read_layer(_blob(blobs, layer), entries, contents)
    config = json.loads(_blob(blobs, manifest["config"]))
    described = index["manifests"][0]
    return Archive(described["digest"], config, described["annotations"], entries, contents)


def _blob(blobs: Mapping[str, bytes], descriptor: Mapping[str, str]) -> bytes:
    return blobs[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]


def _read_layer(data: bytes, entries: dict[str, tarfile.TarInfo], contents: dict[str, bytes]) -> None:
    with tarfile.open(fileobj=io.BytesIO(data)) as layer:
        for entry in layer:
            entries[f"/{entry.name}"] = entry
            stream = layer.extractfile(entry) if entry.isreg() else None
            if stream is not None:
                contents[f"/{entry.name}"] = stream.read()


class ImageRunner:
    """Containers of the agent's image."""

    def __init__(self, containerd: Containerd, archive: Path) -> None:
        self.containerd = containerd
        self._ctr = ["ctr", "-a", str(containerd.socket), "-n", "k8s.io"]
        containerd.load(archive)
        read = read_archive(archive)
        self.config = read.config["config"]
        self._image = read.annotations["org.opencontainers.image.ref.name"]

    @property
    def socket(self) -> Path:
        """The socket of the runtime."""
        return self.containerd.socket

    def run(self, *words: str, mounts: Mounts | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as the agent runs: the image's user, a read-only root, no capabilities."""
        return _finish([*self._agent_command(mounts or {}), self._image, _new_name(), *words])

    def run_as_root(self, *words: str, mounts: Mounts | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as an installer runs: root, a read-only root, and folders of the node."""
        spec = json.loads(_check([*self._ctr, "oci", "spec"]))
        spec["process"] |= {"args": list(words), "env": self.config["Env"], "terminal": False}
        spec["root"] = {"path": str(self._files()), "readonly": True}
        spec["linux"]["namespaces"] = [
            each for each in spec["linux"]["namespaces"] if each["type"] != "network"
        ]
        for target, (source, mode) in (mounts or {}).items():
            bind = {"type": "bind", "source": str(source), "destination": str(target)}
            spec["mounts"].append(bind | {"options": ["rbind", mode]})
        name = _new_name()
        spec["linux"]["cgroupsPath"] = f"/k8s.io/{name}"
        path = self.containerd.folder / f"{name}.json"
        path.write_text(json.dumps(spec))
        return _finish([*self._ctr, "run", "--rm", "--config", str(path), name])

    def _files(self) -> Path:
        """The image's files, mounted once; writable, since the places of mounts are made in it."""
        place = self.containerd.folder / "image"
        if not place.exists():
            place.mkdir()
            _check(
                [*self._ctr, "images", "mount", "--rw", "--snapshotter", "overlayfs", self._image, str(place)]
            )
        return place

    @contextmanager
    def agent(self, mounts: Mounts, **environ: str) -> Iterator[RunningContainer]:
        """Run the image as it is for the length of a block, until it says that it is ready."""
        name = _new_name()
        settings = [word for each in environ.items() for word in ("--env", "=".join(each))]
        log = self.containerd.folder / f"{name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*self._agent_command(mounts), *settings, self._image, name],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        container = RunningContainer(self._ctr, name, process, log)
        try:
            container.wait_ready()
            yield container
        finally:
            container.kill()

    def _agent_command(self, mounts: Mounts) -> list[str]:
        words = [*self._ctr, "run", "--rm", "--snapshotter", "overlayfs", "--read-only", "--net-host"]
        for capability in _CAPABILITIES.split():
            words += ["--cap-drop", f"CAP_{capability}"]
        for target, (source, mode) in mounts.items():
            words += ["--mount", f"type=bind,src={source},dst={target},options=rbind:{mode}"]
        return words


class RunningContainer:
    """A container of the image: its task, and what it has logged."""

    def __init__(self, ctr: list[str], name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self._ctr, self._name, self._process, self._log = ctr, name, process, log

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text()

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as an exec probe does."""
        return _finish([*self._ctr, "tasks", "exec", "--exec-id", _new_name(), self._name, *words])

    def probe(self, question: str) -> int:
        """Return the exit status of the image's own probe."""
        return self.execute(PROBE, question).returncode

    def wait_ready(self) -> None:
        """Wait until the probe says that it is ready."""
        until = time.monotonic() + PATIENCE_SECONDS
        while self.probe("ready") != 0:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < until, self.log
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill it without a warning, and wait until it is gone."""
        if self._process.poll() is None:
            command = [*self._ctr, "tasks", "kill", "--signal", "SIGKILL", self._name]
            subprocess.run(command, check=False, capture_output=True)
        self._process.wait(PATIENCE_SECONDS)


def _new_name() -> str:
    return f"kf-{uuid.uuid4().hex[:12]}"


def _finish(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)


def _check(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
