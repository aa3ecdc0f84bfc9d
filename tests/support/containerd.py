"""A real containerd for the length of a test session, with private folders and socket, and without containers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from support.cri_server import IMAGE_SERVICE, encode
from support.parts import missing, need

PATIENCE_SECONDS = 60.0
_CONFIG = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{folder}/containerd.sock"
[ttrpc]
  address = "{folder}/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{folder}/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/cni"
    conf_dir = "{folder}/cni"
"""
_HOSTS = """\
server = "{url}"
[host."{url}"]
  capabilities = ["pull", "resolve"]
{more}"""


class Containerd:
    """A running containerd: its process, its socket, and the registries it knows."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.folder = folder
        self.pid = pid
        self.socket = folder / "containerd.sock"

    def serve(self, host: str, url: str, ca_file: Path | None = None) -> None:
        """Serve every image of *host* from *url*; takes effect immediately, because the files are read at each pull."""
        place = self.folder / "certs.d" / host
        place.mkdir(parents=True, exist_ok=True)
        more = "" if ca_file is None else f'  ca = "{ca_file}"\n'
        (place / "hosts.toml").write_text(_HOSTS.format(url=url, more=more))

    def load(self, archive: Path) -> None:
        """Load an image from an archive, as for preloaded images of a node."""
        command = ["ctr", "-a", str(self.socket), "-n", "k8s.io", "images", "import", str(archive)]
        subprocess.run(command, check=True, capture_output=True)

    def remove(self, image: str) -> None:
        """Remove an image with all its names, as a node's garbage collection does."""
        with grpc.insecure_channel(f"unix:{self.socket}", [("grpc.enable_http_proxy", 0)]) as channel:
            ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                f"{IMAGE_SERVICE}RemoveImage"
            )
            ask(encode((1, [(1, image)])), timeout=PATIENCE_SECONDS)


@contextmanager
def running_containerd() -> Iterator[Containerd]:
    """Start containerd, wait until it answers, and end it afterwards."""
    program = need("containerd")
    if os.geteuid() != 0:
        missing("containerd needs root to unpack an image")
    # Short, and not below the test's own folder: containerd refuses socket paths longer than 104 bytes.
    folder = Path(tempfile.mkdtemp(prefix="kf."))
    process = None
    try:
        (folder / "cni").mkdir()
        config = folder / "containerd.toml"
        config.write_text(_CONFIG.format(folder=folder))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, "--config", str(config)],
                env={"PATH": os.environ["PATH"]},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        _await(folder, process)
        yield Containerd(folder, process.pid)
    finally:
        if process is not None:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _await(folder: Path, process: subprocess.Popen[bytes]) -> None:
    ask = ["ctr", "-a", str(folder / "containerd.sock"), "version"]
    until = time.monotonic() + PATIENCE_SECONDS
    while subprocess.run(ask, check=False, capture_output=True).returncode != 0:
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until, (folder / "log").read_text()
        time.sleep(0.05)


def _unmount(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", mount], check=False)
