"""Who else could have written a kubeconfig."""

import os
import sys
from pathlib import Path

import pytest

from keyferry.clusters.trust import why_untrusted
from support.parts import root

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
NOBODY = 65534


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A kubeconfig of our own in a folder of our own."""
    folder = tmp_path / "kube"
    folder.mkdir(mode=0o700)
    path = folder / "config"
    path.touch(mode=0o600)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o664, 0o400, 0o755])
def test_a_file_that_only_its_owner_and_group_write_is_trusted(config: Path, mode: int) -> None:
    config.chmod(mode)
    assert why_untrusted(str(config)) == ""


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o777, 0o002])
def test_a_file_that_everybody_can_write_is_not(config: Path, mode: int) -> None:
    config.chmod(mode)
    assert why_untrusted(str(config)) == "everybody can write it"


def test_a_folder_that_everybody_can_write_lets_everybody_replace_the_file(config: Path) -> None:
    config.parent.chmod(0o777)
    assert why_untrusted(str(config)) == f"everybody can write its folder {config.parent}"


def test_a_sticky_folder_such_as_tmp_does_not(config: Path) -> None:
    config.parent.chmod(0o1777)
    assert why_untrusted(str(config)) == ""


def test_a_link_is_as_good_as_what_it_leads_to(config: Path, tmp_path: Path) -> None:
    """Whoever can replace the file behind the link decides, and whoever can replace the link."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    link = home / "config"
    link.symlink_to(config)
    assert why_untrusted(str(link)) == ""
    home.chmod(0o777)
    assert why_untrusted(str(link)) == f"everybody can write its folder {home}"
    home.chmod(0o700)
    config.parent.chmod(0o777)
    assert why_untrusted(str(link)) == f"everybody can write its folder {config.parent}"
    config.parent.chmod(0o700)
    config.chmod(0o666)
    assert why_untrusted(str(link)) == "everybody can write it"


def test_a_relative_path_counts_from_here(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config.parent)
    assert why_untrusted("config") == ""
    config.parent.chmod(0o777)
    assert why_untrusted("config") == f"everybody can write its folder {config.parent}"


def test_what_is_gone_cannot_be_judged(tmp_path: Path) -> None:
    assert why_untrusted(str(tmp_path / "nope")) == ""


@root
def test_a_file_of_somebody_else_is_not_trusted(config: Path) -> None:
    os.chown(config, NOBODY, -1)
    assert why_untrusted(str(config)) == f"it belongs to user {NOBODY}"


@root
def test_a_file_in_somebody_elses_folder_is_not_trusted(config: Path) -> None:
    """They can put another one in its place, sticky or not."""
    os.chown(config.parent, NOBODY, -1)
    assert why_untrusted(str(config)) == f"its folder {config.parent} belongs to user {NOBODY}"


@root
def test_a_file_of_root_is_trusted_by_everybody(config: Path) -> None:
    folder = config.parent
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    os.seteuid(NOBODY)
    try:
        assert why_untrusted(str(config)) == ""
    finally:
        os.seteuid(0)
