"""Where a container runtime goes for an image, found where the runtime looks, in the order in which it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.pulls.mirrors.endpoints import MirrorPlaces, Mirrors, RuntimeKind
from keyferry.pulls.mirrors.find import configured_registries, find_mirrors
from support.mirrors import CERTS, CONFIG, MIRROR, REGISTRIES, mirror_hosts, write

CRIO = '[[registry]]\nlocation = "reg.io"\n[[registry.mirror]]\nlocation = "crio.example"\n'


def test_a_node_without_a_runtime_has_none(tmp_path: Path) -> None:
    assert find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path))) is None


def test_containerd_comes_first_where_the_runtime_is_not_known(tmp_path: Path) -> None:
    write(tmp_path, REGISTRIES, CRIO)
    assert mirror_hosts(find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path)))) == ["crio.example"]
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    assert mirror_hosts(find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path)))) == ["mirror.example"]


@pytest.mark.parametrize(
    ("runtime", "host"), [(RuntimeKind.CONTAINERD, "mirror.example"), (RuntimeKind.CRIO, "crio.example")]
)
def test_only_the_files_of_a_known_runtime_count(tmp_path: Path, runtime: RuntimeKind, host: str) -> None:
    write(tmp_path, REGISTRIES, CRIO)
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    found = find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path), runtime=runtime))
    assert found is not None
    assert (found.runtime, mirror_hosts(found)) == (runtime, [host])


def test_a_file_or_folder_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    write(tmp_path, REGISTRIES, CRIO)
    other, root = os.fspath(tmp_path / "other"), str(tmp_path)
    assert find_mirrors("reg.io/app", MirrorPlaces(root=root, hosts_dir=other)) is None
    assert find_mirrors("reg.io/app", MirrorPlaces(root=root, registries_conf=other)) is None
    named = MirrorPlaces(root=other, hosts_dir=str(tmp_path / CERTS))
    assert mirror_hosts(find_mirrors("reg.io/app", named)) == ["mirror.example"]
    named = MirrorPlaces(root=other, registries_conf=str(tmp_path / REGISTRIES))
    assert mirror_hosts(find_mirrors("reg.io/app", named)) == ["crio.example"]


def test_the_registries_that_have_settings_are_listed(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io_5000_" / "hosts.toml", MIRROR)
    write(tmp_path, CERTS / "_default" / "hosts.toml", MIRROR)
    write(tmp_path, REGISTRIES, '[[registry]]\nprefix = "*.example"\n')
    section = '[plugins.cri.registry.mirrors."docker.io"]\nendpoint = ["https://m"]\n'
    write(tmp_path, CONFIG, section)
    listed = configured_registries(MirrorPlaces(root=str(tmp_path)))
    assert listed == ("reg.io:5000", "docker.io", "*.example")
    only = MirrorPlaces(root=str(tmp_path), hosts_dir=str(tmp_path / CERTS))
    assert configured_registries(only) == ("reg.io:5000",)


def test_what_cannot_be_read_lists_nothing(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, "[")
    write(tmp_path, REGISTRIES, "[")
    assert configured_registries(MirrorPlaces(root=str(tmp_path))) == ()


def test_a_file_that_is_not_toml_is_named_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, "version = 2\n[plugins\nx = 1\n")
    found = find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path)))
    assert found is not None
    assert found.file == str(tmp_path / CONFIG)
    assert "it is not TOML: " in str(found)
    assert "line 2" in str(found)


def test_nothing_is_opened_that_could_block(tmp_path: Path) -> None:
    (tmp_path / CONFIG).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / CONFIG)
    found = find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path)))
    assert found == Mirrors(
        runtime=RuntimeKind.CONTAINERD, file=str(tmp_path / CONFIG), problem="it is not a regular file"
    )
