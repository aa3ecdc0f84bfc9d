"""The registry section of containerd's config, in every version of it and with its imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.pulls.mirrors.containerd import RegistrySection, read_section
from keyferry.pulls.mirrors.files import TomlProblem
from support.mirrors import CONFIG, write

CRI = 'plugins."io.containerd.grpc.v1.cri"'


def read(root: Path) -> RegistrySection:
    found = read_section(str(root / CONFIG), str(root))
    assert found is not None
    return found


def test_no_config_is_no_section(tmp_path: Path) -> None:
    assert read_section(str(tmp_path / CONFIG)) is None


@pytest.mark.parametrize(
    "section", ['"io.containerd.grpc.v1.cri"', '"io.containerd.cri.v1.images"', "cri"], ids=str
)
def test_the_folders_are_named_in_every_version(tmp_path: Path, section: str) -> None:
    """In a file that is imported, with several folders."""
    write(tmp_path, CONFIG, 'imports = ["conf.d/*.toml"]\n')
    text = f'[plugins.{section}.registry]\nconfig_path = "/none:/opt/hosts"\n'
    write(tmp_path, "etc/containerd/conf.d/mirrors.toml", text)
    assert read(tmp_path).folders == (str(tmp_path / "none"), str(tmp_path / "opt/hosts"))


def test_imports_are_looked_for_below_the_root(tmp_path: Path) -> None:
    """As everything else that a config names by its path on the host."""
    write(tmp_path, CONFIG, 'version = 3\nimports = ["/etc/containerd/a.toml"]\n')
    write(tmp_path, "etc/containerd/a.toml", 'imports = ["b.toml", "config.toml"]\n')
    text = '[plugins."io.containerd.cri.v1.images".registry]\nconfig_path = "/opt/certs"\n'
    write(tmp_path, "etc/containerd/b.toml", text)
    assert read(tmp_path).folders == (str(tmp_path / "opt/certs"),)


def test_a_later_file_overrides(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, f'version = 3\nimports = ["b.toml"]\n[{CRI}.registry]\nconfig_path = "/a"\n')
    write(tmp_path, "etc/containerd/b.toml", f'[{CRI}.registry]\nconfig_path = "/b"\n')
    assert read(tmp_path).folders == (str(tmp_path / "b"),)


@pytest.mark.parametrize("version", [2, 3])
def test_a_plugin_that_two_files_set_is_merged_by_containerd_2_alone(tmp_path: Path, version: int) -> None:
    text = f'version = {version}\nimports = ["b.toml"]\n[{CRI}.registry]\nconfig_path = "/a"\n'
    write(tmp_path, CONFIG, text)
    write(tmp_path, "etc/containerd/b.toml", f"[{CRI}]\nenable_selinux = true\n")
    if version == 3:
        assert read(tmp_path).folders == (str(tmp_path / "a"),)
        return
    with pytest.raises(TomlProblem) as caught:
        read(tmp_path)
    assert "which containerd 1 replaces and containerd 2 merges" in caught.value.problem


def test_mirrors_and_logins_of_containerd_1_are_read(tmp_path: Path) -> None:
    text = (
        f'[{CRI}.registry.mirrors."reg.io"]\nendpoint = ["https://a", 5]\n'
        f'[{CRI}.registry.configs."a".auth]\nusername = "u"\n[{CRI}.registry.configs."b".tls]\nx = 1\n'
    )
    write(tmp_path, CONFIG, text)
    section = read(tmp_path)
    assert (section.mirrors, section.logins) == ({"reg.io": ("https://a",)}, frozenset({"a"}))


def test_both_kinds_of_mirrors_stop_the_cri_plugin(tmp_path: Path) -> None:
    text = f'[{CRI}.registry]\nconfig_path = "/a"\n[{CRI}.registry.mirrors.x]\nendpoint = ["https://a"]\n'
    write(tmp_path, CONFIG, text)
    with pytest.raises(TomlProblem) as caught:
        read(tmp_path)
    assert "does not start" in caught.value.problem


def test_an_import_that_is_absent_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, 'imports = ["gone.toml"]\n')
    with pytest.raises(TomlProblem) as caught:
        read(tmp_path)
    assert "gone.toml, which does not exist" in caught.value.problem
