"""The programs that are measured: keyferry as pip installs it, and the peers that ``tools/parts.sh bench`` installs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from bench.measure import ROOT, SOURCES, progress

_HOME = Path(ROOT, ".cache", "bench")
# Environments of one package each.
OFFICIAL_CLIENT = str(_HOME / "kubernetes" / "bin" / "python")
BOTOCORE = str(_HOME / "botocore" / "bin" / "python")
STARLETTE = str(_HOME / "starlette" / "bin" / "python")
AWS = str(_HOME / "awscli" / "bin" / "aws")
ECR_HELPER = "docker-credential-ecr-login"
_DEBIAN_KUBECTL = str(_HOME / "usr" / "bin" / "kubectl")
_MAX_ENVIRONMENTS = 3


def script(name: str) -> str:
    """Return the path of an installed script, such as ``keyferry``, or of the interpreter that its first line names."""
    return str(_environment() / "bin" / name)


@cache
def _environment() -> Path:
    """Return a virtual environment with this tree installed by pip; it is kept until a source changes."""
    home = _HOME / f"keyferry-{_fingerprint()}"
    if (home / ".ready").exists():
        return home
    progress("installing this tree into a virtual environment")
    subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
    install = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*install, f"{ROOT}[httpx]"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pip failed: {done.stderr[-500:]}")
    (home / ".ready").touch()
    kept = sorted(_HOME.glob("keyferry-*"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-_MAX_ENVIRONMENTS]:
        shutil.rmtree(path)
    return home


def _fingerprint() -> str:
    found = sha256(sys.version.encode())
    for path in (Path(ROOT, "pyproject.toml"), *sorted(Path(SOURCES).rglob("*.py"))):
        found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()[:12]


def find_kubectl() -> str:
    """Return the path of a kubectl; empty if there is none.

    Google's kubectl is a dispatcher, which queries the server and then starts the kubectl of the server's version: the
    newest one beside it is used, as for a server of that version. Debian's is the last choice, because it is old.
    """
    found = os.path.realpath(shutil.which("kubectl") or "")
    named = re.compile(r"kubectl\.(\d+)\.(\d+)")
    beside = [match for name in _names_beside(found) if (match := named.fullmatch(name))]
    if beside:
        newest = max(beside, key=lambda match: (int(match[1]), int(match[2])))
        return os.path.join(os.path.dirname(found), newest[0])
    return next((path for path in (found, _DEBIAN_KUBECTL) if os.path.isfile(path)), "")


def _names_beside(path: str) -> list[str]:
    return os.listdir(os.path.dirname(path)) if os.path.isfile(path) else []


def describe_programs() -> dict[str, str]:
    """Return the version of the installer of keyferry and of each peer, or that it is not there."""
    kubectl = _ask((find_kubectl(), "version", "--client", "-o", "json"))
    return {
        "pip": _version(_ask((script("python"), "-m", "pip", "--version"))),
        "kubectl": _kubectl_version(kubectl),
        "official client": _version(_ask(_package(OFFICIAL_CLIENT, "kubernetes"))),
        "aws CLI": _version(_ask((AWS, "--version"))),
        "botocore": _version(_ask(_package(BOTOCORE, "botocore"))),
        ECR_HELPER: _version(_ask((ECR_HELPER, "version"))),
        "skopeo": _version(_ask(("skopeo", "--version"))),
        "Starlette": _version(_ask(_package(STARLETTE, "starlette"))),
        "gcc": _version(_ask(("gcc", "-dumpfullversion"))),
    }


def _package(python: str, name: str) -> tuple[str, ...]:
    return (python, "-c", f"from importlib.metadata import version; print(version({name!r}))")


def _ask(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


def _version(printed: str) -> str:
    found = re.search(r"\d+(\.\d+)+", printed)
    return found[0] if found else "not there"


def _kubectl_version(printed: str) -> str:
    return str(json.loads(printed)["clientVersion"]["gitVersion"])[1:] if printed else "not there"
