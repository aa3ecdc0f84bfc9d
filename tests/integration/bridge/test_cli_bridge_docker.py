"""``keyferry bridge docker``: a diff, then the helper in the tools' configs, and back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import run_keyferry
from support.plugins import Node

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of Unix")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A docker config with a login."""
    path = tmp_path / "config.json"
    path.write_text('{"auths": {"x.io": {"auth": "c2VjcmV0"}}, "credsStore": "pass"}')
    return path


def bridge(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    places = ("--docker-config", str(config), "--registries-dir", str(config.parent / "registries.conf.d"))
    return run_keyferry("bridge", "docker", *words, *places)


def test_install_status_and_uninstall(config: Path) -> None:
    text = config.read_text()
    before = json.loads(text)
    done = bridge(config, "install", "https://reg.io/v2/", "docker.io", "--dry-run")
    assert (done.returncode, json.loads(config.read_text())) == (0, before)
    assert '+"credHelpers": {"reg.io": "keyferry", "https://' in done.stdout
    assert "c2VjcmV0" not in done.stdout + done.stderr
    assert bridge(config, "install", "https://reg.io/v2/", "docker.io").stdout == done.stdout
    helpers = dict.fromkeys(("reg.io", "https://index.docker.io/v1/", "docker.io"), "keyferry")
    assert json.loads(config.read_text()) == {**before, "credHelpers": helpers}
    assert "nothing to change" in bridge(config, "install", "reg.io").stderr
    shown = bridge(config, "status")
    assert (shown.returncode, [line.split()[0] for line in shown.stdout.splitlines()[1:]]) == (
        0,
        list(helpers),
    )
    bridge(config, "uninstall", "docker.io")
    assert json.loads(config.read_text())["credHelpers"] == {"reg.io": "keyferry"}
    bridge(config, "uninstall")
    assert config.read_text() == text
    assert bridge(config, "status").returncode == 1


def test_without_a_host_those_of_the_config_are_used(config: Path, node: Node) -> None:
    node.provider(matchImages=["reg.io", "*.io", "r.io/path"])
    node.recording()
    node.load()
    words = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
    assert bridge(config, "install", *words).returncode == 0
    assert json.loads(config.read_text())["credHelpers"] == {"reg.io": "keyferry"}


def test_a_host_keeps_the_port_that_images_have(config: Path, node: Node) -> None:
    """The tools look for it so, with a default port too."""
    node.provider(matchImages=["port.example:443"])
    node.recording()
    node.load()
    words = ("--config", str(node.config), "--bin-dir", str(node.bin_dir))
    assert bridge(config, "install", *words).returncode == 0
    assert bridge(config, "install", "https://two.example:443", "three.example").returncode == 0
    helpers = dict.fromkeys(("port.example:443", "two.example:443", "three.example"), "keyferry")
    assert json.loads(config.read_text())["credHelpers"] == helpers
    assert bridge(config, "uninstall", "two.example:443").returncode == 0
    assert "two.example:443" not in config.read_text()


def test_the_containers_tools_get_a_file_of_its_own(config: Path) -> None:
    done = bridge(config, "install", "--containers")
    own = config.parent / "registries.conf.d" / "zz-keyferry.conf"
    assert '+credential-helpers = ["containers-auth.json", "keyferry"]' in done.stdout
    assert '"keyferry"]' in own.read_text()
    (found,) = json.loads(bridge(config, "status", "-o", "json").stdout)["registries"]
    assert found == {"registry": "*", "file": str(own)}
    bridge(config, "uninstall", "--containers")
    assert not own.exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["install", "--containers", "reg.io"], "give no HOST"),
        (["install", "reg.io/path"], "is not a registry"),
        (["install", "a b"], "is not a registry"),
    ],
)
def test_wrong_usage_is_explained(config: Path, words: list[str], problem: str) -> None:
    done = bridge(config, *words)
    assert (done.returncode, problem in done.stderr) == (2, True)
