"""Kubeconfigs for tests, with an exec plugin that counts its runs and answers from a file."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import shlex
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from keyferry.clusters.auth.authenticator import Authenticator
from keyferry.clusters.auth.runner import ExecRunner
from keyferry.clusters.kubeconfig.files import load_kubeconfig
from keyferry.clusters.kubeconfig.resolve import resolve
from keyferry.clusters.session import ClusterSession, load_cluster
from keyferry.invoke.policy import PluginPolicy

from .certificates import Pair
from .plugins import PATIENCE_SECONDS, SteppedClock, write_executable

API_VERSION = "client.authentication.k8s.io/v1"
# The token that the server of the tests knows, and one for it to change to.
TOKEN = "s3cret-token-one"
OTHER = "s3cret-token-two"
# Where a stepped clock begins: any time will do.
START = datetime(2026, 1, 1, tzinfo=UTC)
START_NS = int(START.timestamp()) * 1_000_000_000

PLUGIN = """\
#!/bin/sh
cd {here} || exit 1
echo run >>runs
if [ -f wait ]; then sleep "$(cat wait)"; fi
run=$(grep -c '' runs)
if [ -f "answer.$run" ]; then cat "answer.$run"; exit; fi
test -f answer && cat answer
"""


def credential(token: str = "", pair: Pair | None = None, *, seconds: float | None = None) -> str:
    """Return an ExecCredential that expires *seconds* after ``START``."""
    status: dict[str, object] = {}
    if token:
        status["token"] = token
    if pair is not None:
        status["clientCertificateData"] = pair.certificate
        status["clientKeyData"] = pair.key
    if seconds is not None:
        end = datetime.fromtimestamp(START.timestamp() + seconds, UTC)
        status["expirationTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status})


@dataclass(frozen=True, slots=True)
class Kube:
    """A folder with a kubeconfig and a plugin; the clock stands still until it is stepped."""

    folder: Path
    clock: SteppedClock = field(default_factory=lambda: SteppedClock(START_NS))

    @property
    def path(self) -> Path:
        """The kubeconfig."""
        return self.folder / "config"

    def runs(self) -> int:
        """Return how often the plugin was run."""
        path = self.folder / "runs"
        return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0

    def answer(self, *answers: str) -> None:
        """Set the plugin's answers, one per run; the last one is repeated. Without answers the plugin fails."""
        for old in self.folder.glob("answer*"):
            old.unlink()
        done = self.runs()
        for number, text in enumerate(answers[:-1], start=done + 1):
            (self.folder / f"answer.{number}").write_text(text, encoding="utf-8")
        for text in answers[-1:]:
            (self.folder / "answer").write_text(text, encoding="utf-8")

    def wait(self, seconds: float) -> None:
        """Delay the plugin's answer."""
        (self.folder / "wait").write_text(str(seconds), encoding="utf-8")

    def write(
        self,
        server: str,
        *,
        ca: str = "",
        user: Mapping[str, object] | None = None,
        cluster: Mapping[str, object] | None = None,
    ) -> None:
        """Write the kubeconfig: *user* is the plugin by default; *cluster* has fields in addition to the server."""
        fields: dict[str, object] = {"server": server, **(cluster or {})}
        if ca:
            fields["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": fields}],
            "users": [{"name": "test", "user": self.exec_user() if user is None else dict(user)}],
        }
        self.path.write_text(json.dumps(document), encoding="utf-8")
        self.path.chmod(0o600)

    def exec_user(self) -> dict[str, object]:
        """Return a user with the plugin."""
        plugin = write_executable(self.folder / "plugin", PLUGIN.format(here=shlex.quote(str(self.folder))))
        return {"exec": {"apiVersion": API_VERSION, "command": str(plugin), "interactiveMode": "Never"}}

    def load(self) -> ClusterSession:
        """Return a session as users get it, with the real clock."""
        return load_cluster(kubeconfig=self.path, policy=PluginPolicy(), timeout_seconds=PATIENCE_SECONDS)

    def session(self, *, retries: bool = True) -> ClusterSession:
        """Return a session with the stepped clock."""
        config = resolve(load_kubeconfig(str(self.path)))
        if config.exec is None:
            return ClusterSession(config, retries=retries, monotonic=self.clock)
        runner = ExecRunner(config.exec, config.exec_cluster)
        authenticator = Authenticator(
            runner.credential, server=config.server, clock=self.clock, monotonic=self.clock
        )
        return ClusterSession(config, authenticator, retries=retries)


def kube_in(folder: Path, server: str, ca: str) -> Kube:
    """Return a kubeconfig for *server* in a new folder, whose plugin gives ``TOKEN``."""
    folder.mkdir()
    made = Kube(folder)
    made.write(server, ca=ca)
    made.answer(credential(TOKEN))
    return made


def pair_fields(pair: Pair) -> dict[str, object]:
    """Return a kubeconfig user with a client certificate."""
    return {
        "client-certificate-data": base64.b64encode(pair.certificate.encode()).decode(),
        "client-key-data": base64.b64encode(pair.key.encode()).decode(),
    }


_IN_MODIFY, _IN_CREATE, _IN_MOVED_TO, _IN_NONBLOCK = 0x2, 0x100, 0x80, 0o4000


def watch_writes(*folders: Path) -> Callable[[], list[str]]:
    """Start to watch folders; the returned function ends this and returns the names of written files."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(_IN_NONBLOCK)
    for folder in folders:
        mask = _IN_MODIFY | _IN_CREATE | _IN_MOVED_TO
        if libc.inotify_add_watch(fd, os.fsencode(folder), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(folder))

    def end() -> list[str]:
        try:
            return _names(os.read(fd, 65536))
        except BlockingIOError:
            return []
        finally:
            os.close(fd)

    return end


def _names(events: bytes) -> list[str]:
    names, at = [], 0
    while at < len(events):
        length = struct.unpack_from("iIII", events, at)[3]
        names.append(events[at + 16 : at + 16 + length].rstrip(b"\0").decode())
        at += 16 + length
    return names
