"""A kubelet is found by its process, and believed only if that is root's or our own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.images.node.kubelet import BIN_DIR_FLAG, CONFIG_FLAG, look_for_kubelets, parse_flags
from keyferry.images.node.settings import Node
from support.kubelets import Processes
from support.parts import root as as_root

NOBODY = 65534


@pytest.mark.parametrize(
    ("argv", "is_kubelet"),
    [
        (("kubelet",), True),
        (("/usr/bin/kubelet", "--v=2"), True),
        (("hyperkube", "kubelet"), True),
        (("hyperkube", "apiserver"), False),
        (("/usr/local/bin/k3s server",), True),
        (("/usr/local/bin/k3s", "agent", "--token=x"), True),
        (("k3s", "kubectl", "logs", "-f", "server"), False),
        (("k3s", "ctr", "images", "pull"), False),
        (("k3s-server",), True),
        (("/usr/local/bin/rke2", "server"), True),
        (("kubelite", "--start-kubelet=true"), True),
        (("grep", "kubelet"), False),
        (("not-kubelet",), False),
        (("kubelet-exporter",), False),
        ((), False),
    ],
)
def test_which_programs_run_a_kubelet(
    processes: Processes, argv: tuple[str, ...], *, is_kubelet: bool
) -> None:
    """The name and the subcommand tell; a client that comes with one does not count."""
    processes.write(17, *argv)
    assert [each.pid for each in look_for_kubelets(str(processes)).found] == [17] * is_kubelet


def test_a_process_that_runs_is_found_with_its_flags_and_environment(processes: Processes) -> None:
    """A real process, as the system shows it."""
    with processes.kubelet("--root-dir=/data", "--kubeconfig", "/k", env={"A": "1=2", "EMPTY": ""}) as pid:
        (kubelet,) = look_for_kubelets(str(processes)).found
        assert (kubelet.pid, kubelet.program) == (pid, "kubelet")
        assert kubelet.flags == {"--root-dir": "/data", "--kubeconfig": "/k"}
        assert kubelet.is_trusted
        environment = kubelet.read_environment()
        assert environment is not None
        assert environment.items() >= {"A": "1=2", "EMPTY": ""}.items()
        assert "1=2" not in repr(kubelet)
    assert look_for_kubelets(str(processes)).found == ()


def test_an_environment_that_cannot_be_read_is_none(processes: Processes) -> None:
    """Which is not the same as an empty one."""
    processes.write(17, "kubelet")
    processes.write(18, "kubelet", environ=b"")
    kubelets = look_for_kubelets(str(processes)).found
    assert [each.read_environment() for each in kubelets] == [None, {}]


def test_kubelets_proper_come_first(processes: Processes) -> None:
    """RKE2 runs a kubelet as a process of its own, which has all the flags."""
    processes.write(5, "rke2", "server", "--kubelet-arg=root-dir=/half")
    processes.write(17, "kubelet", "--root-dir=/whole")
    assert [each.pid for each in look_for_kubelets(str(processes)).found] == [17, 5]


@as_root
@pytest.mark.parametrize("where", ["owner", "real", "saved"])
def test_a_process_that_was_ever_another_users_is_not_believed(processes: Processes, where: str) -> None:
    """Whoever starts a set-uid program chooses its name and its flags."""
    users = {"owner": "0 0 0", "real": f"{NOBODY} 0 0", "saved": f"0 0 {NOBODY}"}[where]
    home = processes.write(17, "kubelet", status=f"Name:\tsu\nUid:\t{users} 0\n".encode())
    if where == "owner":
        os.chown(home, NOBODY, NOBODY)
    kubelets = look_for_kubelets(str(processes))
    assert [each.pid for each in kubelets.found] == [17]
    assert kubelets.trusted == ()
    assert Node(str(processes)).settings is None


def test_a_set_uid_program_is_no_kubelet(processes: Processes, tmp_path: Path) -> None:
    """Also if it has become root altogether, as sudo does while it asks for a password."""
    program = tmp_path / "sudo"
    program.touch()
    program.chmod(0o4755)
    home = processes.write(17, "kubelet", f"{CONFIG_FLAG}=/evil")
    (home / "exe").symlink_to(program)
    assert look_for_kubelets(str(processes)).found == ()
    program.chmod(0o755)
    assert len(look_for_kubelets(str(processes)).found) == 1


def test_what_hides_processes_is_said(processes: Processes, tmp_path: Path) -> None:
    """A machine whose processes are all seen is told from one where some may be hidden."""
    assert look_for_kubelets(str(processes)).hidden == ""
    processes.set_namespace("pid:[4026532198]")
    contained = look_for_kubelets(str(processes))
    assert contained.is_contained
    assert "container" in contained.hidden
    processes.hide()
    hidden = look_for_kubelets(str(processes))
    assert not hidden.is_contained
    assert "cannot be seen" in hidden.hidden
    assert "cannot be seen" in look_for_kubelets(str(tmp_path / "missing")).hidden


def test_this_machine_is_looked_at_unless_a_variable_names_another(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have the processes of its host in another folder than /proc."""
    processes.write(17, "kubelet")
    assert [each.pid for each in look_for_kubelets().found] == [17]
    monkeypatch.delenv("KEYFERRY_PROC")
    assert all(each.process.startswith("/proc/") for each in look_for_kubelets().found)


def test_flags_are_read_in_every_way_they_can_be_written() -> None:
    """With an equals sign or as two words; the last one counts, and gates add up."""
    words = ["--root-dir", "/old", "--root-dir=/new", "--config=/c", "--feature-gates=A=true,B=true"]
    words += ["--v", "2", "--feature-gates", "B=false", "--config-dir=/d", f"{BIN_DIR_FLAG}=a=b"]
    assert parse_flags(words) == {
        "--root-dir": "/new",
        "--config": "/c",
        "--config-dir": "/d",
        "--feature-gates": "A=true,B=true,B=false",
        BIN_DIR_FLAG: "a=b",
    }


def test_the_flags_of_k3s_are_its_own() -> None:
    """Its --config is no kubelet's, which comes as --kubelet-arg; some flags they have in common."""
    words = [f"{CONFIG_FLAG}=/p", "--container-runtime-endpoint", "unix:///x"]
    words += ["--kubelet-arg=config=/kubelet.yaml", "--kubelet-arg", "root-dir=/data"]
    words += ["--kubelet-arg=--kubeconfig=/k", "--kubelet-arg", "v"]
    words += ["--config=/etc/rancher/k3s/config.yaml", "--root-dir=/no"]
    assert parse_flags(words, is_embedded=True) == {
        CONFIG_FLAG: "/p",
        "--container-runtime-endpoint": "unix:///x",
        "--config": "/kubelet.yaml",
        "--root-dir": "/data",
        "--kubeconfig": "/k",
    }


def test_flags_without_values_are_empty() -> None:
    """A command line that ends too early is no crash."""
    assert parse_flags([CONFIG_FLAG]) == {CONFIG_FLAG: ""}
    assert parse_flags(["--kubelet-arg"]) == {}
    assert parse_flags(["--kubelet-arg", "v=2", "-x", f"{BIN_DIR_FLAG}=a=b"]) == {BIN_DIR_FLAG: "a=b"}


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["kubelet", "--hostname-override= Node1 "], "node1"),
        (["kubelet", "--hostname-override", "a", "--hostname-override=b"], "b"),
        (["kubelet", "--node-name=x"], os.uname().nodename.lower()),
        (["k3s", "server", "--node-name", "Edge"], "edge"),
        (["k3s", "agent", "--kubelet-arg=hostname-override=edge2"], "edge2"),
        (["kubelet"], os.uname().nodename.lower()),
    ],
)
def test_the_name_of_the_node_is_the_kubelets_own(processes: Processes, argv: list[str], name: str) -> None:
    """The flag without white space and in lower case, else the host name."""
    processes.write(17, *argv)
    (found,) = look_for_kubelets(str(processes)).found
    assert found.node_name == name


def test_a_kubelet_with_another_host_name_is_on_no_known_node(processes: Processes) -> None:
    """In another UTS namespace the host name of this process says nothing; the flag still does."""
    for pid, flags in ((17, []), (18, ["--hostname-override=n"])):
        home = processes.write(pid, "kubelet", *flags)
        (home / "ns").mkdir()
        (home / "ns" / "uts").symlink_to("uts:[1]")
    assert [each.node_name for each in look_for_kubelets(str(processes)).found] == ["", "n"]
