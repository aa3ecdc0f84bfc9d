"""The config is what was given, else what the environment names, else what the node uses."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.images.node.discover import WELL_KNOWN_CONFIGS, discover
from keyferry.images.node.kubelet import BIN_DIR_FLAG, CONFIG_FLAG
from keyferry.images.node.settings import Node
from support.parts import root


class Machine:
    """A node of folders: its processes and its files."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.root = folder / "proc", folder / "root"
        self.proc.mkdir()
        self.root.mkdir()
        (self.proc / "self").mkdir()

    def run(self, pid: int, *argv: str) -> Path:
        """Start a process, as far as /proc tells."""
        home = self.proc / str(pid)
        home.mkdir()
        (home / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in argv))
        return home

    def write(self, path: str) -> str:
        """Write an empty file at an absolute path of the node."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("")
        return str(target)

    def discover(
        self, config: str | None = None, bin_dir: str | None = None, **environ: str
    ) -> tuple[str, str, str, str]:
        """What is found on this node, and by whom."""
        found = discover(config, bin_dir, environ=environ, node=Node(str(self.proc)), root=str(self.root))
        return found.config, found.bin_dir, found.config_from, found.bin_dir_from


@pytest.fixture
def node(tmp_path: Path) -> Machine:
    """A node where nothing runs and nothing is written."""
    return Machine(tmp_path)


def flags(config: str, bin_dir: str) -> tuple[str, str]:
    return f"{CONFIG_FLAG}={config}", f"{BIN_DIR_FLAG}={bin_dir}"


def test_what_is_given_comes_first(node: Machine) -> None:
    """Neither the environment nor a kubelet changes what the caller says."""
    node.run(1, "kubelet", *flags("/k", "/kb"))
    found = node.discover("/c", "/b", KEYFERRY_CONFIG="/e", KEYFERRY_BIN_DIR="/eb")
    assert found == ("/c", "/b", "given", "given")


def test_the_environment_comes_second(node: Machine) -> None:
    """Each of the two variables stands in for what is not given."""
    node.run(1, "kubelet", *flags("/k", "/kb"))
    assert node.discover(KEYFERRY_CONFIG="/e", KEYFERRY_BIN_DIR="/eb")[:2] == ("/e", "/eb")
    assert node.discover("/c", KEYFERRY_BIN_DIR="/eb") == ("/c", "/eb", "given", "KEYFERRY_BIN_DIR")
    assert node.discover(None, "/b", KEYFERRY_CONFIG="/e")[:2] == ("/e", "/b")


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
def test_a_running_kubelet_is_asked(node: Machine, argv: tuple[str, ...]) -> None:
    """Its flags are read from its command line, in every way they can be written."""
    node.run(2, "/sbin/init")
    node.run(17, *argv)
    who = "flags of the kubelet, process 17"
    assert node.discover() == ("/k", "/kb", who, who)


def test_other_processes_are_not_asked(node: Machine) -> None:
    """A program that merely has the flags, or ends in the name, is no kubelet; nor is one without flags."""
    node.run(1, "kubelet", "--v=2")
    node.run(2, "not-kubelet", *flags("/evil", "/evil"))
    node.run(3, "grep", "kubelet", *flags("/evil", "/evil"))
    node.run(4)
    (node.proc / "5").mkdir()
    (node.proc / "6").write_text("no folder")
    with pytest.raises(EnvironmentProblem, match="no running kubelet"):
        node.discover()


@root
def test_a_kubelet_of_another_user_is_not_believed(node: Machine) -> None:
    """Anyone can name a process kubelet; only root's and our own say which programs we run."""
    evil = node.run(1, "kubelet", *flags("/evil", "/evil"))
    os.chown(evil, 65534, 65534)
    with pytest.raises(EnvironmentProblem):
        node.discover()
    node.run(2, "kubelet", *flags("/k", "/kb"))
    assert node.discover()[:2] == ("/k", "/kb")


@pytest.mark.parametrize("place", WELL_KNOWN_CONFIGS, ids=lambda place: place.distribution)
def test_well_known_places_come_last(node: Machine, place: object) -> None:
    """A distribution's own config is looked for below the root, with the bin dir that goes with it."""
    (known,) = [each for each in WELL_KNOWN_CONFIGS if each is place]
    path = node.write(known.config)
    config, bin_dir, who, _ = node.discover()
    assert (config, bin_dir) == (path, str(node.root) + known.bin_dir)
    assert who == f"the usual place of {known.distribution}"
    node.run(1, "kubelet", *flags("/k", "/kb"))
    assert node.discover()[:2] == ("/k", "/kb")


def test_a_bin_dir_of_another_config_is_not_used(node: Machine) -> None:
    """A config is never run with the plugins that belong to a different one."""
    node.run(1, "kubelet", *flags("/k", "/kb"))
    node.write(WELL_KNOWN_CONFIGS[0].config)
    with pytest.raises(EnvironmentProblem, match="no bin dir found for the config"):
        node.discover(__file__)
    assert node.discover("/k")[:2] == ("/k", "/kb")


def test_a_config_that_does_not_exist_is_said_before_its_plugins_are_missed(node: Machine) -> None:
    with pytest.raises(EnvironmentProblem, match="the config /no/such does not exist"):
        node.discover("/no/such")


def test_nothing_found_says_where_was_looked(tmp_path: Path) -> None:
    """The error names the flag, the variable and the usual places."""
    with pytest.raises(EnvironmentProblem, match=r"KEYFERRY_CONFIG.*EKS.*Talos"):
        discover(environ={}, node=Node(str(tmp_path / "missing")), root=str(tmp_path))


def test_a_finding_reads_as_a_sentence(node: Machine) -> None:
    """What was chosen and who says so, for people."""
    found = discover("/c", None, environ={"KEYFERRY_BIN_DIR": "/b"}, node=Node(str(node.proc)))
    assert str(found) == "config /c (given), bin dir /b (KEYFERRY_BIN_DIR)"


def test_nobody_is_looked_for_if_all_is_given(node: Machine) -> None:
    """A command that is told everything pays for nothing; one that is not remembers whom it saw."""
    node.run(17, "kubelet", *flags("/k", "/kb"))
    for config, bin_dir, environ in (
        ("/c", "/b", {}),
        (None, None, {"KEYFERRY_CONFIG": "/c", "KEYFERRY_BIN_DIR": "/b"}),
    ):
        looked = Node(str(node.proc))
        found = discover(config, bin_dir, environ=environ, node=looked)
        assert (found.config, found.kubelet) == ("/c", None)
        assert "kubelets" not in vars(looked)
    node.run(3, "kubelet", "--v=2")
    found = discover(environ={}, node=Node(str(node.proc)), root=str(node.root))
    assert found.kubelet is not None
    assert found.kubelet.pid == 17, "the one that names the config, not the first"


def test_the_files_of_a_kubelet_are_read_only_if_its_flags_do_not_say_all(node: Machine) -> None:
    """Reading them takes a parser, and may fail; what cannot be read is noted."""
    node.run(17, "kubelet", "--config=/nonexistent", *flags("/k", "/kb"))
    assert discover(environ={}, node=Node(str(node.proc))).notes == ()
    (node.proc / "17" / "cmdline").write_bytes(b"kubelet\0--config=/nonexistent\0")
    with pytest.raises(EnvironmentProblem, match="; /nonexistent of the kubelet, process 17: cannot be read"):
        discover(environ={}, node=Node(str(node.proc)), root=str(node.root))
    found = discover(environ={}, node=Node(str(node.proc)), root=str(node.root), needs_config=False)
    (note,) = found.notes
    assert note == "/nonexistent of the kubelet, process 17: cannot be read: no such file or directory"


def test_a_kubelet_whose_flags_name_no_config_has_none(node: Machine) -> None:
    """Whatever is in the usual places; only what embeds a kubelet may have a config that its flags do not name."""
    path = node.write(WELL_KNOWN_CONFIGS[0].config)
    for program, config in (("kubelet", ""), ("k3s", path)):
        node.run(17, *((program,) if program == "kubelet" else (program, "server")))
        found = discover(environ={}, node=Node(str(node.proc)), root=str(node.root), needs_config=False)
        assert found.config == config, program
        shutil.rmtree(node.proc / "17")


def test_the_usual_places_may_be_below_another_root(node: Machine) -> None:
    """A container may have its host's files in a folder."""
    path = node.write(WELL_KNOWN_CONFIGS[0].config)
    found = discover(environ={"KEYFERRY_HOST_ROOT": str(node.root)}, node=Node(str(node.proc)))
    assert found.config == path
