"""The config is what was given, else what the environment names, else what the node uses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from keyferry import Node
from keyferry.errors import EnvironmentProblem
from keyferry.images.node.discover import WELL_KNOWN_CONFIGS, Discovery, discover
from keyferry.images.node.kubelet import BIN_DIR_FLAG, CONFIG_FLAG
from support.kubelets import Processes
from support.parts import root

pytestmark = pytest.mark.usefixtures("processes")
FIRST_PLACE = WELL_KNOWN_CONFIGS[0].config


def find(
    folder: Path,
    config: str | None = None,
    bin_dir: str | None = None,
    *,
    needs_config: bool = True,
    env: Mapping[str, str] | None = None,
) -> Discovery:
    """What is found on a node whose files are below a folder."""
    return discover(config, bin_dir, environ=env or {}, root=str(folder / "root"), needs_config=needs_config)


def write(folder: Path, path: str = FIRST_PLACE) -> str:
    """Write an empty file at an absolute path of that node."""
    target = folder / "root" / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch()
    return str(target)


def flags(config: str, bin_dir: str) -> tuple[str, str]:
    return f"{CONFIG_FLAG}={config}", f"{BIN_DIR_FLAG}={bin_dir}"


KUBELET = ("kubelet", *flags("/k", "/kb"))
ENVIRONMENT = {"KEYFERRY_CONFIG": "/e", "KEYFERRY_BIN_DIR": "/eb"}


@pytest.mark.parametrize(
    ("given", "env", "expected"),
    [
        (("/c", "/b"), ENVIRONMENT, "config /c (given), bin dir /b (given)"),
        ((None, None), ENVIRONMENT, "config /e (KEYFERRY_CONFIG), bin dir /eb (KEYFERRY_BIN_DIR)"),
        (("/c", None), {"KEYFERRY_BIN_DIR": "/eb"}, "config /c (given), bin dir /eb (KEYFERRY_BIN_DIR)"),
        ((None, "/b"), {"KEYFERRY_CONFIG": "/e"}, "config /e (KEYFERRY_CONFIG), bin dir /b (given)"),
    ],
)
def test_what_is_given_comes_first_and_the_environment_second(
    processes: Processes, tmp_path: Path, given: tuple[str, str], env: dict[str, str], expected: str
) -> None:
    """Each of the two variables stands in for what is not given; nobody looks for a kubelet then."""
    processes.write(17, *KUBELET)
    found = find(tmp_path, *given, env=env)
    assert (str(found), found.kubelet) == (expected, None)


@pytest.mark.parametrize(
    "argv",
    [
        ("/usr/bin/kubelet", *flags("/k", "/kb"), "--v=2"),
        ("kubelet", CONFIG_FLAG, "/k", BIN_DIR_FLAG, "/kb"),
        (
            "k3s server",
            "--kubelet-arg=" + flags("/k", "/kb")[0][2:],
            "--kubelet-arg",
            flags("/k", "/kb")[1][2:],
        ),
        ("/usr/local/bin/rke2", "agent", *(f"--kubelet-arg={flag[2:]}" for flag in flags("/k", "/kb"))),
        ("hyperkube", "kubelet", *flags("/old", "/old"), *flags("/k", "/kb")),
    ],
    ids=["kubelet", "separate-values", "k3s", "rke2", "last-wins"],
)
def test_a_running_kubelet_is_asked(processes: Processes, tmp_path: Path, argv: tuple[str, ...]) -> None:
    """Its flags are read in every way they can be written; a kubelet that names none is passed over."""
    processes.write(3, "kubelet", "--v=2")
    processes.write(17, *argv)
    found = find(tmp_path)
    who = "flags of the kubelet, process 17"
    assert str(found) == f"config /k ({who}), bin dir /kb ({who})"
    assert found.kubelet is not None
    assert found.kubelet.pid == 17


def test_other_processes_are_not_asked(processes: Processes, tmp_path: Path) -> None:
    """What merely has the flags, or ends in the name, is no kubelet; half a flag names nothing."""
    for pid, argv in enumerate((["kubelet", "--v=2"], ["not-kubelet"], ["grep", "kubelet"], []), 2):
        processes.write(pid, *argv, *(flags("/evil", "/evil") if pid in (3, 4) else ()))
    (processes.folder / "6").mkdir()
    (processes.folder / "7").write_text("no folder")
    processes.write(8, "kubelet", CONFIG_FLAG)
    processes.write(9, "k3s", "server", "--kubelet-arg")
    with pytest.raises(EnvironmentProblem, match="no running kubelet"):
        find(tmp_path)


@root
def test_a_kubelet_of_another_user_is_not_believed(processes: Processes, tmp_path: Path) -> None:
    """Anyone can name a process kubelet; only root's and our own say which programs we run."""
    os.chown(processes.write(2, "kubelet", *flags("/evil", "/evil")), 65534, 65534)
    with pytest.raises(EnvironmentProblem):
        find(tmp_path)
    processes.write(3, *KUBELET)
    assert find(tmp_path).config == "/k"


@pytest.mark.parametrize("known", WELL_KNOWN_CONFIGS, ids=lambda place: place.distribution)
def test_well_known_places_come_last(processes: Processes, tmp_path: Path, known: object) -> None:
    """A distribution's own config is looked for below the root, with the bin dir that goes with it."""
    (place,) = [each for each in WELL_KNOWN_CONFIGS if each is known]
    path, who = write(tmp_path, place.config), f"the usual place of {place.distribution}"
    assert str(find(tmp_path)) == f"config {path} ({who}), bin dir {tmp_path}/root{place.bin_dir} ({who})"
    processes.write(17, *KUBELET)
    assert find(tmp_path).config == "/k"


def test_the_usual_places_may_be_below_another_root(tmp_path: Path) -> None:
    """A container may have its host's files in a folder."""
    path = write(tmp_path)
    assert discover(environ={"KEYFERRY_HOST_ROOT": str(tmp_path / "root")}).config == path


def test_a_bin_dir_of_another_config_is_not_used(processes: Processes, tmp_path: Path) -> None:
    """A config is never run with the plugins that belong to a different one."""
    processes.write(17, *KUBELET)
    write(tmp_path)
    with pytest.raises(EnvironmentProblem, match="no bin dir found for the config"):
        find(tmp_path, __file__)
    assert find(tmp_path, "/k").bin_dir == "/kb"


def test_what_is_not_found_is_said(tmp_path: Path) -> None:
    """That a given config does not exist, or that nothing names one, with the places that were searched."""
    with pytest.raises(EnvironmentProblem, match="the config /no/such does not exist"):
        find(tmp_path, "/no/such")
    with pytest.raises(EnvironmentProblem, match=r"KEYFERRY_CONFIG.*EKS.*Talos"):
        discover(environ={}, node=Node(str(tmp_path / "missing")), root=str(tmp_path))


def test_the_files_of_a_kubelet_are_read_only_if_its_flags_do_not_say_all(
    processes: Processes, tmp_path: Path
) -> None:
    """Reading them takes a parser, and may fail; what cannot be read is noted."""
    home = processes.write(17, "kubelet", "--config=/nonexistent", *flags("/k", "/kb"))
    assert find(tmp_path).notes == ()
    (home / "cmdline").write_bytes(b"kubelet\0--config=/nonexistent\0")
    with pytest.raises(EnvironmentProblem, match="; /nonexistent of the kubelet, process 17: cannot be read"):
        find(tmp_path)
    (note,) = find(tmp_path, needs_config=False).notes
    assert note == "/nonexistent of the kubelet, process 17: cannot be read: no such file or directory"


@pytest.mark.parametrize(("argv", "has_config"), [(["kubelet"], False), (["k3s", "server"], True)])
def test_a_kubelet_whose_flags_name_no_config_has_none(
    processes: Processes, tmp_path: Path, argv: list[str], has_config: bool
) -> None:
    """Whatever is in the usual places; only what embeds a kubelet may have a config that its flags do not name."""
    path = write(tmp_path)
    processes.write(17, *argv)
    assert find(tmp_path, needs_config=False).config == (path if has_config else "")
