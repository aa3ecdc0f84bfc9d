"""A node for ``keyferry doctor``: processes, files and a socket below a folder of the test's own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.commands import Node, run_in_process
from support.kubelets import Processes, listening


class DoctorNode:
    """A machine with a provider config, a container runtime and a kubelet that uses both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = Processes(folder / "proc")
        self.node = Node(folder)
        self.socket = folder / "run" / "containerd.sock"
        self.more_flags: list[str] = []

    @property
    def variables(self) -> dict[str, str]:
        """The variables that make this folder the machine."""
        return {"KEYFERRY_PROC": str(self.processes), "KEYFERRY_HOST_ROOT": str(self.folder)}

    def flags(self) -> list[str]:
        """The flags of its kubelet."""
        return [
            f"--image-credential-provider-config={self.node.config}",
            f"--image-credential-provider-bin-dir={self.node.bin_dir}",
            f"--container-runtime-endpoint=unix://{self.socket}",
            f"--root-dir={self.folder}",
            *self.more_flags,
        ]

    @contextmanager
    def running(self, env: Mapping[str, str] | None = None, *, has_socket: bool = True) -> Iterator[int]:
        """Run the kubelet, and listen at the socket of the runtime."""
        with ExitStack() as stack:
            if has_socket:
                stack.enter_context(listening(self.socket))
            yield stack.enter_context(self.processes.kubelet(*self.flags(), env=env or {"PATH": "/bin"}))

    def visit(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the command on this machine."""
        return run_in_process("doctor", *words, cwd=None, **self.variables, **env)

    def lines(self, *words: str, **env: str) -> list[dict[str, str]]:
        """The lines of all sections, each with the title of its section."""
        document = json.loads(self.visit(*words, "-o", "json", **env).stdout)
        return [{"title": each["title"], **line} for each in document["sections"] for line in each["lines"]]


def pick(lines: list[dict[str, str]], title: str, subject: str = "") -> list[tuple[str, str]]:
    """The levels and texts of a section's lines, or of those about one subject."""
    chosen = [line for line in lines if line["title"] == title and subject in ("", line["subject"])]
    return [(line["level"], line["text"]) for line in chosen]
