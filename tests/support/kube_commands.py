"""Run ``keyferry kube`` with a test's kubeconfig."""

from __future__ import annotations

import json
import subprocess

from support.commands import run_in_process
from support.kube import API_VERSION, Kube

Done = subprocess.CompletedProcess[str]


def keyferry_kube(kube: Kube, *words: str, **env: str) -> Done:
    """Run a subcommand with the test's kubeconfig and its own home folder."""
    home = kube.folder / "home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "KUBERC": "", **env}
    return run_in_process("kube", *words, "--kubeconfig", str(kube.path), cwd=None, **env)


def exec_section(kube: Kube, **fields: object) -> dict[str, object]:
    """Return the test's exec section with some fields changed."""
    section = kube.exec_user()["exec"]
    assert isinstance(section, dict)
    return {"exec": {**section, **fields}}


def status_with(**fields: str) -> str:
    """Return an ExecCredential with any status."""
    return json.dumps({"apiVersion": API_VERSION, "kind": "ExecCredential", "status": fields})
