"""Where the files of container runtimes are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.images.node.kubelet import RuntimeProcess, look_for_kubelets
from keyferry.pulls.mirrors.endpoints import RuntimeKind, running_places, runtime_of, stale_sources
from support.kubelets import Processes
from support.mirrors import write
from support.parts import root

CONTAINERD, CRIO = "unix:///run/containerd/containerd.sock", "unix:///var/run/crio/crio.sock"


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [
        (CONTAINERD, RuntimeKind.CONTAINERD),
        ("unix:///run/k3s/containerd/containerd.sock", RuntimeKind.CONTAINERD),
        (CRIO, RuntimeKind.CRIO),
        ("unix:///run/cri-dockerd.sock", None),
        ("", None),
    ],
)
def test_the_socket_tells_the_runtime(endpoint: str, kind: RuntimeKind | None) -> None:
    assert runtime_of(endpoint) is kind


def running(processes: Processes) -> tuple[RuntimeProcess, ...]:
    return look_for_kubelets(str(processes)).runtimes


def test_the_only_runtime_that_runs_is_the_one(processes: Processes) -> None:
    processes.write(20, "/usr/bin/crio", "-d", "/etc/crio")
    assert running_places(running(processes)).runtime is RuntimeKind.CRIO
    processes.write(21, "/usr/bin/containerd")
    assert running_places(running(processes)).runtime is None


@pytest.mark.parametrize("flag", [("-c", "{}"), ("--config={}",), ("--config", "{}")])
def test_a_running_containerd_names_its_config(
    processes: Processes, tmp_path: Path, flag: tuple[str, ...]
) -> None:
    path = str(tmp_path / "own.toml")
    processes.write(20, "/bin/containerd", *(word.format(path) for word in flag))
    found = running_places(running(processes), CONTAINERD, root="/host")
    assert found.containerd_configs == (path,)
    assert running_places(running(processes), CRIO).containerd_config == ""


def test_a_runtime_at_another_socket_is_another_one(processes: Processes) -> None:
    processes.write(20, "containerd", "-c", "/other.toml", "-a", "/run/other.sock")
    processes.write(21, "containerd", "-c", "/own.toml", "-a", "/run/containerd/containerd.sock")
    assert running_places(running(processes), CONTAINERD).containerd_config == "/own.toml"


@root
def test_a_runtime_of_another_user_names_nothing(processes: Processes) -> None:
    home = processes.write(20, "containerd", "-c", "/own.toml")
    os.chown(home, 1234, 1234)
    assert running_places(running(processes), CONTAINERD).containerd_config == ""


def test_a_source_is_stale_if_it_is_newer_than_what_is_written_from_it(tmp_path: Path) -> None:
    file = write(tmp_path, "etc/rancher/k3s/registries.yaml", "mirrors: {}\n")
    folder = tmp_path / "var/lib/rancher/k3s/agent/etc/containerd/certs.d"
    assert stale_sources(str(tmp_path)) == ((file, str(folder)),)
    folder.mkdir(parents=True)
    os.utime(file, (1, 1))
    assert stale_sources(str(tmp_path)) == ()
