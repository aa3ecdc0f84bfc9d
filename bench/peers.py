"""The programs that keyferry is compared with, installed by ``tools/parts.sh bench``: their paths and versions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence

from bench.measure import ROOT

_HOME = os.path.join(ROOT, ".cache", "bench")
# Environments of one package each.
OFFICIAL_CLIENT = os.path.join(_HOME, "kubernetes", "bin", "python")
BOTOCORE = os.path.join(_HOME, "botocore", "bin", "python")
AWS = os.path.join(_HOME, "awscli", "bin", "aws")
_DEBIAN_KUBECTL = os.path.join(_HOME, "usr", "bin", "kubectl")


def find_kubectl() -> str:
    """Return the path of a kubectl; empty if there is none.

    Google's kubectl is a dispatcher, which queries the server and then starts the kubectl of the server's version: the
    newest one beside it is used, as for a server of that version. Debian's is the last choice, because it is old.
    """
    found = os.path.realpath(shutil.which("kubectl") or "")
    versions = _versions_beside(found)
    if versions:
        return versions[-1]
    return next((path for path in (found, _DEBIAN_KUBECTL) if os.path.isfile(path)), "")


def _versions_beside(path: str) -> list[str]:
    folder = os.path.dirname(path)
    if not os.path.isfile(path):
        return []
    named = [re.fullmatch(r"kubectl\.(\d+)\.(\d+)", name) for name in os.listdir(folder)]
    ordered = sorted((int(name[1]), int(name[2]), name[0]) for name in named if name)
    return [os.path.join(folder, name) for *_, name in ordered]


def describe_peers() -> dict[str, str]:
    """Return each peer's version, or that it is not installed."""
    skopeo, helper, registry, musl = map(
        shutil.which, ("skopeo", "docker-credential-ecr-login", "docker-registry", "musl-gcc")
    )
    package = "from importlib.metadata import version; print(version({!r}))"
    asked: dict[str, tuple[Sequence[str], Callable[[str], str]]] = {
        "kubectl": ((find_kubectl(), "version", "--client", "-o", "json"), _kubectl_version),
        "official Kubernetes client": ((OFFICIAL_CLIENT, "-c", package.format("kubernetes")), _first_version),
        "botocore": ((BOTOCORE, "-c", package.format("botocore")), _first_version),
        "AWS CLI": ((AWS, "--version"), _first_version),
        "amazon-ecr-credential-helper": ((helper or "", "version"), _first_version),
        "skopeo": ((skopeo or "", "--version"), _first_version),
        "docker-registry": ((registry or "", "--version"), _first_version),
        "gcc": ((shutil.which("gcc") or "", "-dumpfullversion"), _first_version),
        "musl-gcc": ((musl or "", "-dumpfullversion"), _first_version),
    }
    return {name: _ask(command, read) for name, (command, read) in asked.items()}


def _ask(command: Sequence[str], read: Callable[[str], str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return read(done.stdout + done.stderr)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return "not there"


def _kubectl_version(printed: str) -> str:
    return str(json.loads(printed)["clientVersion"]["gitVersion"]).removeprefix("v")


def _first_version(printed: str) -> str:
    found = re.search(r"\d+(\.\d+)+", printed)
    return found[0] if found else "there"
