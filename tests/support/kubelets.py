"""Kubelets for tests: real processes of that name, and folders that list only them, in the form of /proc."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.unix_sockets import bind

FIRST_NAMESPACE = "pid:[4026531836]"


class Processes:
    """A folder like ``/proc`` on a machine where all processes are visible, and only init runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.write(1, "/sbin/init")
        self.set_namespace(FIRST_NAMESPACE)

    def __str__(self) -> str:
        return str(self.folder)

    def write(self, pid: int, *argv: str, **files: bytes) -> Path:
        """Write an entry for a process that does not exist; its folder belongs to this user."""
        home = self.folder / str(pid)
        home.mkdir()
        (home / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in argv))
        for name, content in files.items():
            (home / name).write_bytes(content)
        return home

    def show(self, pid: int) -> None:
        """Add a running process."""
        (self.folder / str(pid)).symlink_to(f"/proc/{pid}")

    def set_namespace(self, name: str) -> None:
        """Set the namespace of the processes."""
        link = self.folder / "1" / "ns" / "pid"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(name)

    def hide(self) -> None:
        """Hide the processes of other users, as with hidepid."""
        (self.folder / "1" / "cmdline").unlink()

    @contextmanager
    def kubelet(
        self, *flags: str, env: Mapping[str, str] | None = None, user: int | None = None
    ) -> Iterator[int]:
        """Run a process called kubelet, with these flags; yield its process id."""
        # A shell that waits for its standard input to end: what follows its script are arguments that it ignores.
        argv = ["kubelet", "-c", "read line", *flags]
        with subprocess.Popen(
            argv, executable="/bin/sh", stdin=subprocess.PIPE, env=env, cwd="/", user=user
        ) as process:
            _wait_for_name(process.pid)
            self.show(process.pid)
            try:
                yield process.pid
            finally:
                (self.folder / str(process.pid)).unlink()
                process.communicate()


def _wait_for_name(pid: int) -> None:
    """Wait until a new process has its arguments, which the system sets shortly after its start."""
    while not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"kubelet\0"):
        time.sleep(0.001)


@contextmanager
def listening(path: Path, user: int | None = None) -> Iterator[Path]:
    """Yield a unix socket with a listener; afterwards the socket file is left."""
    own = os.geteuid()
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        bind(server, path)
        os.seteuid(own if user is None else user)
        try:
            server.listen()
        finally:
            os.seteuid(own)
        yield path


def write_config(path: Path, **fields: object) -> Path:
    """Write a KubeletConfiguration in JSON, which is also YAML."""
    document = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **fields}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path
