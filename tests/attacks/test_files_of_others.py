"""Root edits and installs files in the folder of another user, who plants links and swaps folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry.bridge.docker_config import plan_docker_install
from keyferry.bridge.file_change import apply_change
from keyferry.errors import EnvironmentProblem
from support.commands import run_keyferry
from support.parts import root
from support.plugins import provider_entry, write_config

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of Unix"),
    root,
]

USER = 12345
HOST = "registry.example"
LINT_TEXT = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages:
  - reg.example/*
  defaultCacheDuration: 10m
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of root's, with a docker config in it."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text('{"auths": {}}')
    return folder


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of the other user's, with their docker config in it."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    config = folder / "config.json"
    config.write_text('{"auths": {}}')
    config.chmod(0o640)
    for path in (folder, config):
        os.chown(path, USER, USER + 1)
    return folder


def plant(link: Path, target: Path) -> None:
    """Put a link of the other user's in the place of *link*."""
    if link.is_dir():
        link.rename(link.with_name("moved"))
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    os.chown(link, USER, USER, follow_symlinks=False)


def docker(action: str, config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_keyferry("bridge", "docker", action, *words, "--docker-config", str(config))


@pytest.mark.parametrize("action", ["install", "uninstall"])
@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_a_link_of_another_user_is_not_followed(
    own: Path, theirs: Path, action: str, *, is_folder: bool
) -> None:
    text = json.dumps({"credHelpers": {"other.example" if action == "install" else HOST: "keyferry"}})
    (own / "config.json").write_text(text)
    home = theirs.rename(theirs.parent / "home") if not is_folder else theirs.parent
    config = home / "config.json" if not is_folder else theirs / "config.json"
    plant(theirs if is_folder else config, own if is_folder else own / "config.json")
    done = docker(action, config, HOST)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"a link of user {USER}, which is not followed" in done.stderr
    assert f"sudo -u '#{USER}'" in done.stderr
    assert (own / "config.json").read_text() == text


def test_a_link_of_root_in_the_folder_of_another_user_is_not_followed(own: Path, theirs: Path) -> None:
    """They could have moved it there from another of their folders."""
    (theirs / "config.json").unlink()
    (theirs / "config.json").symlink_to(own / "config.json")
    done = docker("install", theirs / "config.json", HOST)
    assert (done.returncode, f"a link in a folder of user {USER}" in done.stderr) == (3, True)
    assert (own / "config.json").read_text() == '{"auths": {}}'


def test_links_of_root_in_its_own_folders_are_followed_and_stay(own: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").symlink_to("own")
    (own / "link.json").symlink_to(tmp_path / "folder" / "config.json")
    assert docker("install", tmp_path / "folder" / "link.json", HOST).returncode == 0
    assert (own / "link.json").is_symlink()
    assert json.loads((own / "config.json").read_text())["credHelpers"] == {HOST: "keyferry"}


def test_a_folder_that_is_swapped_after_the_diff_is_not_followed(own: Path, theirs: Path) -> None:
    change = plan_docker_install(str(theirs / "config.json"), [HOST])
    plant(theirs, own)
    with pytest.raises(EnvironmentProblem, match="which is not followed"):
        apply_change(change)
    assert (own / "config.json").read_text() == '{"auths": {}}'


def test_a_pipe_in_the_place_of_a_config_does_not_stop_root(theirs: Path) -> None:
    (theirs / "config.json").unlink()
    os.mkfifo(theirs / "config.json")
    done = docker("install", theirs / "config.json", HOST)
    assert (done.returncode, "is not a regular file" in done.stderr) == (3, True)


def test_a_pipe_in_the_place_of_a_plugin_does_not_stop_root(tmp_path: Path) -> None:
    """Nor lint, which looks for shims."""
    config = tmp_path / "providers.json"
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    write_config(config, [provider_entry("acme")])
    os.mkfifo(bin_dir / "acme")
    done = run_keyferry("lint", str(config), "--bin-dir", str(bin_dir))
    assert done.returncode == 1
    done = run_keyferry("bridge", "kubelet", "status", "--config", str(config), "--bin-dir", str(bin_dir))
    assert done.returncode in (0, 1)


def test_the_owner_keeps_the_file(theirs: Path) -> None:
    for action in ("install", "uninstall"):
        assert docker(action, theirs / "config.json", HOST).returncode == 0
        found = (theirs / "config.json").stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (USER, USER + 1, 0o640)
    assert os.listdir(theirs) == ["config.json"]


def test_a_new_file_belongs_to_the_owner_of_the_folder(theirs: Path) -> None:
    (theirs / "config.json").unlink()
    assert docker("install", theirs / "config.json", HOST).returncode == 0
    found = (theirs / "config.json").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (USER, USER + 1, 0o600)


def test_no_folder_is_made_for_another_user(theirs: Path) -> None:
    done = docker("install", theirs / ".docker" / "config.json", HOST)
    assert (done.returncode, f"sudo -u '#{USER}'" in done.stderr) == (3, True)
    assert not (theirs / ".docker").exists()


def test_lint_corrects_no_file_behind_a_link_of_another_user(own: Path, theirs: Path) -> None:
    target = own / "config.yaml"
    target.write_text(LINT_TEXT)
    plant(theirs / "config.yaml", target)
    done = run_keyferry("lint", "--fix", str(theirs / "config.yaml"))
    assert "which is not followed" in done.stderr
    assert target.read_text() == LINT_TEXT


@pytest.mark.parametrize("command", [["plugin", "install", "static"], ["bridge", "kubelet", "install"]])
def test_nothing_is_installed_behind_a_link_of_another_user(
    own: Path, theirs: Path, command: list[str]
) -> None:
    plant(theirs, own)
    words = ["--beside", "shim", "--shim", "python"] if "kubelet" in command else []
    done = run_keyferry(*command, *words, "--bin-dir", str(theirs))
    assert (done.returncode, "which is not followed" in done.stderr) == (3, True), done.stderr
    assert os.listdir(own) == ["config.json"]
