"""Shims in a folder of plugins: installed, listed and removed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry.bridge.kubelet_install import (
    InstalledShim,
    ShimPosition,
    install_beside,
    install_in_front,
    list_shims,
    python_shim,
    uninstall,
)
from keyferry.errors import EnvironmentProblem
from keyferry.invoke.shim import is_shim
from support import parts
from support.plugins import write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and executables of Unix")
PLUGIN = "#!/bin/sh\necho plugin\n"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin in a folder of plugins."""
    return write_executable(tmp_path / "ecr", PLUGIN)


def in_front(plugin: Path) -> InstalledShim:
    return install_in_front(str(plugin.parent), plugin.name, python_shim(), "/run/x/agent.sock")


def names(plugin: Path) -> list[str]:
    return sorted(os.listdir(plugin.parent))


def test_a_shim_in_front_and_back_again(plugin: Path) -> None:
    before = plugin.stat()
    shim = in_front(plugin)
    assert shim == InstalledShim(
        name="ecr",
        position=ShimPosition.IN_FRONT,
        plugin=f"{plugin}.real",
        socket="/run/x/agent.sock",
        language="Python",
        agent_user=os.geteuid(),
    )
    assert list_shims(str(plugin.parent)) == (shim,)
    assert is_shim(str(plugin))
    assert names(plugin) == ["ecr", "ecr.agent", "ecr.real"]
    assert uninstall(str(plugin.parent), "ecr") is ShimPosition.IN_FRONT
    assert names(plugin) == ["ecr"]
    assert plugin.stat().st_ino == before.st_ino
    assert list_shims(str(plugin.parent)) == ()


def test_installing_again_changes_the_shim_alone(plugin: Path) -> None:
    in_front(plugin)
    shim = install_in_front(str(plugin.parent), "ecr", b"\x7fELF" + python_shim(), "auto")
    assert (shim.language, shim.position) == ("C", ShimPosition.IN_FRONT)
    assert Path(f"{plugin}.real").read_text() == PLUGIN


def test_a_plugin_that_is_a_link_stays_one(plugin: Path) -> None:
    plugin.rename(plugin.with_name("target"))
    plugin.symlink_to("target")
    in_front(plugin)
    assert Path(f"{plugin}.real").is_symlink()
    uninstall(str(plugin.parent), "ecr")
    assert plugin.readlink() == Path("target")


def test_a_plugin_of_the_same_folder_is_pointed_to_by_its_name(plugin: Path, tmp_path: Path) -> None:
    """The folder may have another path where the shim runs; a plugin elsewhere has the path that it is given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    near = write_executable(folder / "near", PLUGIN)
    for behind, target in ((near, "near"), (plugin, str(plugin))):
        shim = install_beside(str(folder), "keyferry", python_shim(), plugin=str(behind))
        assert (folder / "keyferry.beside").readlink() == Path(target)
        assert Path(shim.plugin).samefile(behind)


@parts.root
def test_the_link_to_the_socket_belongs_to_the_agents_user(plugin: Path) -> None:
    shim = install_in_front(str(plugin.parent), "ecr", python_shim(), "/run/x/agent.sock", agent_user=1234)
    assert shim.agent_user == 1234
    assert Path(f"{plugin}.agent").lstat().st_uid == 1234
    assert in_front(plugin).agent_user == 0


def test_an_upgraded_plugin_is_kept(plugin: Path) -> None:
    """A package has overwritten the shim: its program stays, and what the shim had left goes."""
    in_front(plugin)
    write_executable(plugin, "#!/bin/sh\necho new\n")
    (found,) = list_shims(str(plugin.parent))
    assert (found.position, found.language) == (ShimPosition.OVERWRITTEN, "")
    assert uninstall(str(plugin.parent), "ecr") is ShimPosition.OVERWRITTEN
    assert names(plugin) == ["ecr"]
    assert "new" in plugin.read_text()


def test_after_an_upgrade_the_new_plugin_is_behind_the_shim(plugin: Path) -> None:
    in_front(plugin)
    write_executable(plugin, "#!/bin/sh\necho new\n")
    in_front(plugin)
    assert "new" in Path(f"{plugin}.real").read_text()
    assert names(plugin) == ["ecr", "ecr.agent", "ecr.real"]


def test_a_removed_shim_gives_its_place_to_the_plugin(plugin: Path) -> None:
    in_front(plugin)
    plugin.unlink()
    uninstall(str(plugin.parent), "ecr")
    assert plugin.read_text() == PLUGIN


def test_somebody_elses_shim_is_not_touched(plugin: Path) -> None:
    Path(f"{plugin}.real").write_text("theirs")
    with pytest.raises(EnvironmentProblem, match="another program seems to stand in front of 'ecr'"):
        in_front(plugin)
    with pytest.raises(EnvironmentProblem, match="is not a shim of keyferry"):
        uninstall(str(plugin.parent), "ecr")
    assert plugin.read_text() == PLUGIN
    assert names(plugin) == ["ecr", "ecr.real"]


def test_an_installation_that_was_cut_short_is_taken_up(plugin: Path) -> None:
    """The plugin has its second name and nothing more: nobody stands in front of it."""
    os.link(plugin, f"{plugin}.real")
    in_front(plugin)
    assert names(plugin) == ["ecr", "ecr.agent", "ecr.real"]
    assert Path(f"{plugin}.real").read_text() == PLUGIN


@pytest.mark.parametrize("change", [in_front, lambda plugin: uninstall(str(plugin.parent), "ecr")])
def test_a_shim_that_cannot_be_read_is_left_alone_with_the_plugin_behind_it(
    plugin: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for a plugin, it would be put in the place of the one behind it, or that one removed as outdated."""
    in_front(plugin)
    before = names(plugin)

    def refuse(*_: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("keyferry.bridge.kubelet_install.read_shim_mark", refuse)
        with pytest.raises(EnvironmentProblem, match="ecr' cannot be read: input/output error"):
            change(plugin)
    assert names(plugin) == before
    assert Path(f"{plugin}.real").read_text() == PLUGIN


def test_beside_the_plugins(plugin: Path) -> None:
    folder = str(plugin.parent)
    shim = install_beside(folder, "keyferry", python_shim(), plugin=str(plugin))
    assert (shim.position, shim.plugin) == (ShimPosition.BESIDE, f"{folder}/keyferry.beside")
    assert install_beside(folder, "keyferry", python_shim()).plugin == shim.plugin
    assert uninstall(folder, "keyferry") is ShimPosition.BESIDE
    assert names(plugin) == ["ecr"]


def test_beside_takes_no_plugins_place(plugin: Path) -> None:
    folder = str(plugin.parent)
    with pytest.raises(EnvironmentProblem, match="use --in-front-of ecr"):
        install_beside(folder, "ecr", python_shim())
    in_front(plugin)
    with pytest.raises(EnvironmentProblem, match="use --in-front-of ecr"):
        install_beside(folder, "ecr", python_shim())
    with pytest.raises(EnvironmentProblem, match="is a shim; give the plugin itself"):
        install_beside(folder, "keyferry", python_shim(), plugin=str(plugin))


def test_a_shim_whose_plugin_is_gone_is_broken(plugin: Path) -> None:
    folder = str(plugin.parent)
    install_beside(folder, "keyferry", python_shim(), plugin=str(plugin))
    plugin.unlink()
    assert [shim.position for shim in list_shims(folder)] == [ShimPosition.BROKEN]
    uninstall(folder, "keyferry")
    assert names(plugin) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "x.real", "x.agent", "x.beside"])
def test_names_that_no_shim_can_have(plugin: Path, name: str) -> None:
    with pytest.raises(EnvironmentProblem, match="is not the name of a provider"):
        install_in_front(str(plugin.parent), name, python_shim())


def test_what_is_no_plugin_gets_no_shim(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    (tmp_path / "folder").mkdir()
    for name, problem in (
        ("none", "no such file"),
        ("text", "not an executable"),
        ("folder", "not an executable"),
    ):
        with pytest.raises(EnvironmentProblem, match=problem):
            install_in_front(str(tmp_path), name, python_shim())
    with pytest.raises(EnvironmentProblem, match="cannot be opened"):
        list_shims(str(tmp_path / "none"))
