"""A Debian system as the node, its plugin a program that needs its libraries: ``explain --host-root`` runs it there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.commands import plain_pod, run_in_process
from support.host_root import IMAGE
from support.parts import need, root
from support.plugins import provider_entry, write_config, write_executable

# The interpreter's loader, its libraries and this module are the node's alone.
PLUGIN = """\
#!/usr/bin/python3
import sys
sys.path.insert(0, "/usr/lib/node")
import nodelib
sys.stdin.read()
print(nodelib.ANSWER % sys.version.split()[0])
"""
MODULE = """\
ANSWER = '''{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
"cacheKeyType": "Registry", "auth": {"registry.example": {"username": "node", "password": "%s"}}}'''
"""


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system with Python, whose loader and folders are links, some of them absolute."""
    folder = tmp_path_factory.mktemp("node") / "debian"
    words = [need("mmdebstrap"), "--quiet", "--variant=extract", "--include=python3-minimal"]
    valid = subprocess.run(
        ["apt-config", "dump", "--format=%v", "Acquire::Check-Valid-Until"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    done = subprocess.run(
        [*words, f'--aptopt=Acquire::Check-Valid-Until "{valid or "true"}"', "bookworm", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@root
def test_a_plugin_runs_with_its_own_systems_libraries(debian: Path, tmp_path: Path) -> None:
    (debian / "usr/lib/node").mkdir()
    (debian / "usr/lib/node/nodelib.py").write_text(MODULE)
    plugins = debian / "usr/share/eks"
    plugins.mkdir(parents=True)
    write_config(plugins / "config.json", [provider_entry("node-plugin", matchImages=["registry.example"])])
    (debian / "opt").mkdir(exist_ok=True)
    write_executable(debian / "opt/node-plugin", PLUGIN)
    (plugins / "node-plugin").symlink_to("/opt/node-plugin")
    (debian / "etc/eks").mkdir()
    (debian / "etc/eks/image-credential-provider").symlink_to("/usr/share/eks")
    words = [*plain_pod(tmp_path), "--host-root", str(debian)]

    explained = run_in_process("explain", IMAGE, *words, "-o", "json")
    assert explained.returncode == 0, explained.stdout + explained.stderr
    document = json.loads(explained.stdout)
    assert document["config"]["path"] == "/etc/eks/image-credential-provider/config.json"
    assert [each["username"] for each in document["credentials"]] == ["node"]

    got = run_in_process("get", IMAGE, *words, "--reveal", "-o", "json")
    version = subprocess.run(
        ["chroot", str(debian), "/usr/bin/python3", "-c", "import sys; print(sys.version.split()[0])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert json.loads(got.stdout)["credentials"][0]["password"] == version
