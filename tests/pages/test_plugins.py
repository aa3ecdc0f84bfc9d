"""The examples of the pages about plugins and lint that are run nowhere else."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from keyferry.sdk.flags import Flag
from support.commands import Node
from support.pages import ROOT, Machine, blocks

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the commands are for a POSIX shell")
BIN_DIR = "/usr/libexec/kubernetes/plugins"


def test_a_plugin_is_installed_under_both_names(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    machine = Machine(tmp_path, {str(tmp_path / "plugins"): BIN_DIR})
    output = machine.run(blocks("docs/plugins/README.md", "sh")[0])
    assert output == f"{BIN_DIR}/keyferry-ecr\n{BIN_DIR}/ecr-credential-provider\n"
    for path in (tmp_path / "plugins").iterdir():
        assert "standard input is empty" in machine.shell(f"{path} </dev/null || true").stdout


@pytest.mark.parametrize(
    ("plugin", "page"),
    [
        ("acr", "azure"),
        ("aks", "azure"),
        ("docker_helper", "README"),
        ("ecr", "aws"),
        ("eks", "aws"),
        ("federate", "federation"),
        ("gcr", "google"),
        ("gke", "google"),
        ("oidc", "oidc"),
        ("static", "README"),
    ],
)
def test_the_page_of_a_plugin_names_each_flag_of_its_help(plugin: str, page: str) -> None:
    text = (ROOT / "docs" / "plugins" / f"{page}.md").read_text()
    flags: tuple[Flag, ...] = import_module(f"keyferry_plugins.{plugin}").FLAGS
    shown = [flag.name for flag in flags if not flag.is_ignored]
    assert [name for name in shown if not re.search(rf"--{name}(?![\w-])", text)] == []


def test_two_configs_are_compared(tmp_path: Path) -> None:
    """The exit code is 1, as something changes."""
    for name, pattern in (("new", "*.registry.example"), ("old", "registry.example")):
        (tmp_path / name).mkdir()
        Node(tmp_path / name).add("acme", [pattern]).config.rename(tmp_path / f"{name}.yaml")
    (tmp_path / "images.txt").write_text("registry.example/team/app:v1\n")
    machine = Machine(tmp_path)
    (block,) = (each for each in blocks("docs/node.md", "sh") if "keyferry diff" in each.text)
    outputs = [machine.shell(line) for line in block.text.splitlines()]
    assert [done.returncode for done in outputs] == [1, 1]
    assert ["registry.example/team/app:v1" in done.stdout for done in outputs] == [False, True]
