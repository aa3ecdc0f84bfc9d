"""Real plugins for tests: executables, the config that names them, and the providers of both.

Nothing here replaces keyferry's own code. A ``Node`` is a folder with a bin
dir and a config, as for a kubelet; its plugins are scripts or compiled
programs, and they record what they did in files that the test reads.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keyferry.images.load import load_providers
from keyferry.images.lookup import Providers
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.invoke.run import Limits
from support.parts import need

API_VERSION = "credentialprovider.kubelet.k8s.io/v1"
CONFIG_API_VERSION = "kubelet.config.k8s.io/v1"
REGISTRY = "registry.example"
IMAGE = f"{REGISTRY}/team/app"
PLUGIN = "plugin"
MODE = 0o755

# How long a test waits for something that should be there at once on a machine that is busy.
PATIENCE_SECONDS = 20.0

# The first lines of a shell plugin that wants to know what it is asked.
READ_IMAGE = """\
read -r request
image=${request#*'"image":"'}
image=${image%%'"'*}
"""


def answer(
    key_type: str = "Registry",
    *,
    duration: str | None = "10m",
    auth: Mapping[str, tuple[str, str]] | None = None,
    api_version: str = API_VERSION,
) -> str:
    """Return a plugin's answer, on one line; without *auth*, one login for the test registry."""
    logins = {REGISTRY: ("user", "pass")} if auth is None else auth
    document: dict[str, object] = {
        "kind": "CredentialProviderResponse",
        "apiVersion": api_version,
        "cacheKeyType": key_type,
        "auth": {key: {"username": name, "password": word} for key, (name, word) in logins.items()},
    }
    if duration is not None:
        document["cacheDuration"] = duration
    return json.dumps(document)


def print_answer(
    key_type: str = "Registry",
    *,
    duration: str | None = "10m",
    auth: Mapping[str, tuple[str, str]] | None = None,
    api_version: str = API_VERSION,
) -> str:
    """Return the shell command with which a plugin prints that answer."""
    text = answer(key_type, duration=duration, auth=auth, api_version=api_version)
    return f"printf '%s\\n' {shlex.quote(text)}"


def write_executable(path: Path, content: str | bytes, mode: int = MODE) -> Path:
    """Write an executable file; it is renamed into place, so that a running program is not changed."""
    draft = path.with_name(path.name + ".draft")
    draft.write_bytes(content.encode() if isinstance(content, str) else content)
    draft.chmod(mode)
    draft.replace(path)
    return path


def compile_program(path: Path, source: str, *, static: bool = False) -> Path:
    """Compile a C program."""
    command = [need("cc"), "-O1", "-w", "-x", "c", "-", "-o", str(path)]
    for linking in (["-static"], []) if static else ([],):
        done = subprocess.run([*command, *linking], input=source.encode(), capture_output=True, check=False)
        if done.returncode == 0:
            return path
    raise AssertionError(done.stderr.decode())


def provider_entry(name: str = PLUGIN, **fields: object) -> dict[str, object]:
    """Return one provider of a config, by the config's own field names."""
    return {
        "name": name,
        "apiVersion": API_VERSION,
        "matchImages": [REGISTRY],
        "defaultCacheDuration": "10m",
        **fields,
    }


def write_config(path: Path, entries: Iterable[Mapping[str, object]]) -> Path:
    """Write a provider config."""
    document = {
        "apiVersion": CONFIG_API_VERSION,
        "kind": "CredentialProviderConfig",
        "providers": list(entries),
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class Node:
    """A folder like a node's: a bin dir, a config, and files that plugins write for the test."""

    root: Path
    entries: list[dict[str, object]] = field(default_factory=list)

    @property
    def bin_dir(self) -> Path:
        """The folder of the plugins."""
        path = self.root / "bin"
        path.mkdir(exist_ok=True)
        return path

    @property
    def config(self) -> Path:
        """The provider config; written by ``load`` unless a test wrote it."""
        return self.root / "config.json"

    def file(self, name: str) -> Path:
        """Return a file that a plugin and the test share."""
        return self.root / name

    def shell(self, body: str, name: str = PLUGIN) -> Path:
        """Write a plugin as a shell script; ``$HERE`` in it is the node's folder."""
        here = f"export HERE={shlex.quote(str(self.root))}"
        return write_executable(self.bin_dir / name, f"#!/bin/sh\n{here}\n{body}\n")

    def python(self, body: str, name: str = PLUGIN) -> Path:
        """Write a plugin as a Python script, without site packages; ``HERE`` in it is the node's folder."""
        head = f"#!{sys.executable} -IS\nHERE = {str(self.root)!r}\n"
        return write_executable(self.bin_dir / name, head + body)

    def program(self, source: str, name: str = PLUGIN, *, static: bool = False) -> Path:
        """Write a plugin as a compiled C program."""
        return compile_program(self.bin_dir / name, source, static=static)

    def recording(
        self,
        key_type: str = "Registry",
        *,
        name: str = PLUGIN,
        duration: str | None = "10m",
        auth: Mapping[str, tuple[str, str]] | None = None,
        before: str = "",
    ) -> Path:
        """Write a plugin that records the image of each run, and answers.

        *before* is shell code that runs between the two, with ``$image``, ``$HERE``
        and ``$RUN``, the number of the run; it may wait, fail or exit.
        """
        note = f'echo "$image" >>"$HERE/{name}.runs"; RUN=$(grep -c "" "$HERE/{name}.runs")'
        say = print_answer(key_type, duration=duration, auth=auth)
        return self.shell(f"{READ_IMAGE}\n{note}\n{before}\n{say}", name)

    def runs(self, name: str = PLUGIN) -> list[str]:
        """Return the images that a recording plugin was run for, in order."""
        path = self.root / f"{name}.runs"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def provider(self, name: str = PLUGIN, **fields: object) -> None:
        """Add a provider to the config, by the config's own field names."""
        self.entries.append(provider_entry(name, **fields))

    def load(
        self,
        *,
        timeout_seconds: float = PATIENCE_SECONDS,
        coalesce: bool = True,
        clock: Callable[[], int] = time.monotonic_ns,
        withhold_env: Iterable[str] = (),
    ) -> Providers:
        """Write the config, with one simple provider if none was added, and load it."""
        write_config(self.config, self.entries or [provider_entry()])
        return load_providers(
            self.config,
            self.bin_dir,
            timeout_seconds=timeout_seconds,
            coalesce=coalesce,
            clock=clock,
            withhold_env=withhold_env,
        )

    def plugin(self, name: str = PLUGIN, *, limits: Limits | None = None) -> ExecPlugin:
        """Return one plugin without a config, a cache or the checks at loading."""
        limits = limits or Limits(timeout_seconds=PATIENCE_SECONDS)
        return ExecPlugin(name=name, path=str(self.bin_dir / name), api_version=API_VERSION, limits=limits)


class SteppedClock:
    """A clock that advances only when it is stepped, in nanoseconds."""

    def __init__(self, now_ns: int = 1_000_000_000) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ns

    def step(self, seconds: float) -> None:
        """Advance the clock, or with a negative number move it back."""
        self.now_ns += round(seconds * 1_000_000_000)


def wait_until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for an effect of other processes or threads; fail if it does not happen in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what or condition}")
        time.sleep(0.005)


def read_pids(path: Path, count: int) -> list[int]:
    """Return the process ids that plugins wrote, one per line, once there are *count*."""
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= count, f"{count} pids in {path}")
    return [int(line) for line in path.read_text().split()]


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def run_script(
    script: str, *args: object, stdin: int | None = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    """Run Python code in its own process, with keyferry on its path."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, args)],
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )


def exit_code_in_fork(work: Callable[[], None]) -> int:
    """Run *work* in a forked child; return 0 on success, a negative signal number if it hung."""
    import signal
    import traceback
    import warnings

    with warnings.catch_warnings():
        # Python 3.12 warns of forks beside threads; here they are the point.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(round(PATIENCE_SECONDS))
    try:
        work()
    except BaseException:  # noqa: BLE001 - a child must not come back into the test runner
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
