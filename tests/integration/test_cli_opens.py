"""What the commands about images look at on this machine: no more than they need, and nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.commands import Node
from support.kubelets import Processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

# Runs a command, and writes down all that it opens and lists, as the interpreter itself sees it.
SPY = """\
import json, sys
opened = []
report = sys.argv[1]
from keyferry.cli.main import main
def note(event, args):
    if event in ("open", "os.listdir", "os.scandir"):
        opened.append(str(args[0]))
sys.addaudithook(note)
try:
    main(sys.argv[2:])
finally:
    seen = list(opened)
    with open(report, "w") as stream:
        json.dump(seen, stream)
"""
IMAGE = "127.0.0.1:1/team/app:v1"
COMMANDS = {
    "get": (),
    "can-pull": (),
    "explain": (),
    "pull": ("--to", "layout"),
}


def opened_by(folder: Path, *words: str, **variables: str) -> list[str]:
    """The files and folders that a command opens."""
    report = folder / "opened.json"
    subprocess.run(
        [sys.executable, "-c", SPY, report, *words],
        env={**os.environ, **variables},
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=True,
    )
    found: list[str] = json.loads(report.read_text())
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_processes_are_not_looked_at_where_config_and_plugins_are_given(tmp_path: Path, command: str) -> None:
    """There are many of them, and each is a file to read."""
    node = Node(tmp_path).add("plugin", ["127.0.0.1:1"])
    given = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
    opened = opened_by(tmp_path, command, IMAGE, *COMMANDS[command], *given)
    assert str(node.config) in opened
    assert [path for path in opened if path.startswith("/proc")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_environment_names_them_as_well(tmp_path: Path, command: str) -> None:
    """As the options do."""
    node = Node(tmp_path).add("plugin", ["127.0.0.1:1"])
    variables = {"KEYFERRY_CONFIG": str(node.config), "KEYFERRY_BIN_DIR": str(node.bin_dir)}
    opened = opened_by(
        tmp_path, command, IMAGE, *COMMANDS[command], "--docker-config", "/missing", **variables
    )
    assert str(node.config) in opened
    assert [path for path in opened if path.startswith("/proc")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kubelet_and_its_config_are_looked_at_once(
    processes: Processes, tmp_path: Path, command: str
) -> None:
    """What one part of a command has found out, the others are told."""
    node = Node(tmp_path).add("plugin", ["127.0.0.1:1"])
    flags = [
        f"--image-credential-provider-config={node.config}",
        f"--image-credential-provider-bin-dir={node.bin_dir}",
    ]
    with processes.kubelet(*flags, env={"PATH": "/usr/bin:/bin"}) as pid:
        opened = Counter(opened_by(tmp_path, command, IMAGE, *COMMANDS[command]))
    home = processes.folder
    looked_at = {path: opened[path] for path in opened if path.startswith(str(home))}
    assert looked_at[str(home)] == 1
    assert looked_at[str(home / str(pid) / "cmdline")] == 1
    assert looked_at[str(home / str(pid) / "environ")] == 1
    assert opened[str(node.config)] == 1


@pytest.mark.parametrize(
    "kind", ["CredentialProviderConfig", "FederationConfig", "Config", "Preference", "AgentConfig"]
)
@pytest.mark.parametrize("versions", ["1.36", "1.33,1.36"])
def test_lint_reads_its_file_once(tmp_path: Path, kind: str, versions: str) -> None:
    """Of whatever kind it is, and for as many versions as are asked for."""
    path = tmp_path / "config.yaml"
    path.write_text(f"kind: {kind}\n")
    opened = opened_by(tmp_path, "lint", str(path), "--kubernetes", versions, "-o", "diff")
    assert Counter(opened)[str(path)] == 1
