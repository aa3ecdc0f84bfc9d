"""Plugins written with the SDK, run in their own processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import keyferry
from support.plugins import PATIENCE_SECONDS, write_executable

SOURCE = os.path.dirname(os.path.dirname(keyferry.__file__))
IMAGE_GROUP = "credentialprovider.kubelet.k8s.io"
CLUSTER_GROUP = "client.authentication.k8s.io"
SECRET = "Zq7marked-S3cret9vX"

_HEAD = f"""\
import os, sys
sys.path.insert(0, {SOURCE!r})
"""

_IMAGE = """\
from keyferry.sdk import AuthConfig, GLOBAL, IMAGE, ProvideError, REGISTRY, Request, Response, serve
{before}
def provide(request):
{body}
serve(provide)
"""

_CLUSTER = """\
from keyferry.sdk import ExecRequest, ExecResponse, ProvideError, ask, serve_cluster, tell
{before}
def provide(request):
{body}
serve_cluster(provide)
"""

LOGIN = 'return Response.for_registry(request, "user", "pass-word", cache_seconds=600)'
TOKEN = 'return ExecResponse(token="the-token", expires_at=2000000000)'


@dataclass(frozen=True)
class Ran:
    """The result of a plugin."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def document(self) -> dict[str, object]:
        """Standard output, which must be one line with one JSON object."""
        assert self.status == 0, self.stderr
        assert self.stdout.endswith(b"}\n")
        assert self.stdout.count(b"\n") == 1
        loaded = json.loads(self.stdout)
        assert isinstance(loaded, dict)
        return loaded

    def failed_with(self, *words: str, status: int = 1) -> None:
        """Assert that there are a message with *words*, a status, and no standard output."""
        assert (self.status, self.stdout) == (status, b""), self.stderr
        for word in words:
            assert word in self.stderr, self.stderr
        assert "Traceback" not in self.stderr


def image_plugin(body: str = LOGIN, before: str = "") -> str:
    """Return the source of an image plugin whose function has this *body*."""
    return _HEAD + _IMAGE.format(before=before, body=_indent(body))


def cluster_plugin(body: str = TOKEN, before: str = "") -> str:
    """Return the source of a cluster plugin whose function has this *body*."""
    return _HEAD + _CLUSTER.format(before=before, body=_indent(body))


def _indent(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.splitlines())


def python(source: str) -> list[str]:
    """Return the command that runs *source* without the user's settings and without site packages."""
    return [sys.executable, "-IS", "-c", source]


def write_plugin(path: Path, source: str) -> Path:
    """Write an executable with that source."""
    return write_executable(path, f"#!{sys.executable} -IS\n{source}")


def run_source(source: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """Run a plugin to its end; *env* is its whole environment."""
    done = subprocess.run(
        python(source), input=stdin, env=dict(env or {}), capture_output=True, check=False,
        timeout=3 * PATIENCE_SECONDS,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def request_bytes(image: str = "registry.example/team/app", version: str = "v1", **more: object) -> bytes:
    """Return a request in the kubelet's format, with *more* fields."""
    document = {
        "kind": "CredentialProviderRequest",
        "apiVersion": f"{IMAGE_GROUP}/{version}",
        "image": image,
        **more,
    }
    return json.dumps(document).encode() + b"\n"


def exec_info(version: str = "v1", *, interactive: bool = False, **spec: object) -> dict[str, str]:
    """Return the environment with which a client starts a plugin."""
    document = {
        "kind": "ExecCredential",
        "apiVersion": f"{CLUSTER_GROUP}/{version}",
        "spec": {**spec, "interactive": interactive},
    }
    return {"KUBERNETES_EXEC_INFO": json.dumps(document) + "\n"}
