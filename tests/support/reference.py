"""Run the reference plugins as a kubelet or kubectl would: real processes with their own environment."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import keyferry_plugins
from support.plugin_forks import run_forked

SOURCE = os.path.dirname(os.path.dirname(keyferry_plugins.__file__))
IMAGE_GROUP = "credentialprovider.kubelet.k8s.io"
CLUSTER_GROUP = "client.authentication.k8s.io"
MODULES = {"docker-helper": "docker_helper"}

_LAUNCH = """\
import sys
sys.path.insert(0, {source!r})
sys.argv[0] = {name!r}
from keyferry_plugins.{module} import main
main()
"""


@dataclass(frozen=True)
class Answer:
    """The result of a plugin: exit status, standard output and error as text."""

    status: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, object]:
        """Standard output, which must be one JSON object."""
        assert self.status == 0, self.stderr
        loaded = json.loads(self.stdout)
        assert isinstance(loaded, dict)
        return loaded

    @property
    def failure(self) -> str:
        """Standard error of a run that failed, with nothing on standard output."""
        assert (self.status, self.stdout) == (1, ""), self.stderr
        return self.stderr

    @property
    def auth(self) -> dict[str, tuple[str, str]]:
        """User name and password by auth key."""
        found = self.document.get("auth") or {}
        assert isinstance(found, dict)
        return {key: (entry["username"], entry["password"]) for key, entry in found.items()}

    @property
    def login_status(self) -> dict[str, str]:
        """The ``status`` of an ExecCredential."""
        found = self.document["status"]
        assert isinstance(found, dict)
        return found


def launcher(name: str) -> list[str]:
    """Return the command that starts the plugin *name* of the package under test."""
    module = MODULES.get(name, name)
    # cryptography, where a plugin needs it, is found beside the tests' own packages.
    return [sys.executable, "-I", "-c", _LAUNCH.format(source=SOURCE, name=f"keyferry-{name}", module=module)]


def write_launcher(
    folder: Path, name: str, *, file_name: str = "", env: Mapping[str, str] | None = None
) -> Path:
    """Write an executable that starts the plugin *name*, for a bin dir; *env* is added to its environment."""
    path = folder / (file_name or f"keyferry-{name}")
    settings = "".join(f"os.environ[{key!r}] = {value!r}\n" for key, value in (env or {}).items())
    script = _LAUNCH.format(source=SOURCE, name=path.name, module=MODULES.get(name, name))
    path.write_text(f"#!{sys.executable} -I\nimport os\n{settings}{script}")
    path.chmod(0o755)
    return path


def image_request(
    image: str, *, token: str = "", annotations: Mapping[str, str] | None = None, version: str = "v1"
) -> str:
    """Return a request in the kubelet's format."""
    document: dict[str, object] = {
        "kind": "CredentialProviderRequest",
        "apiVersion": f"{IMAGE_GROUP}/{version}",
        "image": image,
    }
    if token:
        document["serviceAccountToken"] = token
    if annotations:
        document["serviceAccountAnnotations"] = dict(annotations)
    return json.dumps(document)


def ask_image(
    name: str,
    image: str,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    token: str = "",
    annotations: Mapping[str, str] | None = None,
    version: str = "v1",
) -> Answer:
    """Run an image plugin on one request; *env* is its whole environment except PATH."""
    return run_plugin(
        name, image_request(image, token=token, annotations=annotations, version=version), args, env
    )


def ask_cluster(
    name: str,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    exec_info: str | None = "v1",
    stdin: str = "",
) -> Answer:
    """Run a cluster plugin; *exec_info* is a version, the whole text of the variable, or None for no variable."""
    told = dict(env or {})
    if exec_info is not None:
        info = {
            "kind": "ExecCredential",
            "apiVersion": f"{CLUSTER_GROUP}/{exec_info}",
            "spec": {"interactive": False},
        }
        told["KUBERNETES_EXEC_INFO"] = json.dumps(info) if exec_info in ("v1", "v1beta1") else exec_info
    return run_plugin(name, stdin, args, told)


def run_plugin(name: str, stdin: str, args: Sequence[str], env: Mapping[str, str] | None) -> Answer:
    """Run a plugin with *stdin*, in a forked process in which a pause takes no time."""
    told = {"PATH": os.environ["PATH"], **(env or {})}
    return Answer(*run_forked(SOURCE, MODULES.get(name, name), stdin, args, told))
