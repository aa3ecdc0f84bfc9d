"""The shims under test: the Python one, and the C one as it is shipped, with sanitizers, and for another processor."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from keyferry.bridge.kubelet_install import python_shim
from support.parts import PARTS, missing, need
from support.plugins import API_VERSION, write_executable

SOURCE = Path(__file__).resolve().parents[2] / "native" / "shim.c"
STRICT = ("-Wall", "-Wextra", "-Werror")
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
IMAGE = "registry.example/team/app:v1"
KINDS = ("python", "native", "sanitized", "arm64")


@dataclass(frozen=True)
class Shim:
    """One build of the shim: its bytes, and what has to run it where the system does not."""

    kind: str
    program: bytes
    runner: tuple[str, ...] = ()


# In place of the import of the Python shim, for one with another time limit.
PATIENT = b"""\
from functools import partial
from keyferry.bridge import shim
shim.ask_agent = partial(shim.ask_agent, answer_seconds=%d)
from keyferry.bridge.shim import main
"""


def build(kind: str, folder: Path, *, answer_seconds: int = 0) -> Shim:
    """Build one of the shims; *answer_seconds* replaces its own limit for the agent's answer."""
    if kind == "python":
        program = python_shim()
        start = b"from keyferry.bridge.shim import main\n"
        assert start in program
        return Shim(kind, program.replace(start, PATIENT % answer_seconds) if answer_seconds else program)
    source = SOURCE
    if answer_seconds:
        source = folder / "shim.c"
        text, changed = re.subn(
            r"(?m)(?<=^#define ANSWER_MS ).*", f"{answer_seconds * 1000}", SOURCE.read_text()
        )
        assert changed == 1
        source.write_text(text)
    target = folder / kind
    runner: tuple[str, ...] = ()
    if kind == "native":
        compiler = [need("musl-gcc"), "-O2", "-static", "-s"]
    elif kind == "sanitized":
        compiler = [need("gcc"), *SANITIZERS]
    else:
        zig = PARTS / "zig" / "bin" / "python"
        if not zig.exists():
            missing("no compiler for arm64: 'make parts' installs it")
        compiler = [str(zig), "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static", "-O2", "-s"]
        runner = (need("qemu-aarch64-static"),)
    subprocess.run([*compiler, *STRICT, "-o", str(target), str(source)], check=True)
    return Shim(kind, target.read_bytes(), runner)


def request(image: str = IMAGE, **fields: object) -> bytes:
    """Return what a kubelet writes to a plugin."""
    document = {"kind": "CredentialProviderRequest", "apiVersion": API_VERSION, "image": image, **fields}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


# A plugin that tells how it was run: its input, arguments, environment and ignored signals.
PLUGIN = """\
#!/bin/sh
cat > "$0.input"
for word in "$@"; do printf '%s\\n' "$word"; done > "$0.args"
tr '\\0' '\\n' < /proc/$$/environ > "$0.environ"
grep SigIgn /proc/$$/status > "$0.signals"
echo $$ >> "$0.runs"
echo "the plugin answers"
"""


class Place:
    """A folder of plugins with a shim in it, and perhaps a plugin behind the shim."""

    def __init__(self, folder: Path, shim: Shim, name: str = "provider", behind: str = ".real") -> None:
        self.folder = folder / "bin"
        self.folder.mkdir(exist_ok=True)
        self.shim = shim
        self.path = write_executable(self.folder / name, shim.program)
        self.socket = folder / "agent" / "agent.sock"
        self.behind = self.folder / f"{name}{behind}" if behind else None
        if self.behind is not None:
            write_executable(self.behind, PLUGIN)

    def run(
        self,
        data: bytes | None = None,
        *args: str,
        env: dict[str, str] | None = None,
        path: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the shim as a kubelet does; without *env*, the socket is that of this place."""
        return subprocess.run(
            [*self.shim.runner, str(path or self.path), *args],
            input=request() if data is None else data,
            env={"KEYFERRY_AGENT": str(self.socket)} if env is None else env,
            capture_output=True,
            check=False,
            timeout=60,
        )

    def told(self, what: str) -> bytes:
        """Return what the plugin behind the shim wrote about its run."""
        return Path(f"{self.behind}.{what}").read_bytes()

    @property
    def runs(self) -> int:
        """How often the plugin behind the shim ran."""
        path = Path(f"{self.behind}.runs")
        return path.read_text().count("\n") if path.exists() else 0


def build_reader(folder: Path) -> Path:
    """Build the part of the C shim that reads answers, with sanitizers."""
    target = folder / "reader"
    command = [need("gcc"), *SANITIZERS, *STRICT, "-DSHIM_READER", "-o", str(target), str(SOURCE)]
    subprocess.run(command, check=True)
    return target
