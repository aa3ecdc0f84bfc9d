"""Beside a kubelet nothing private is pulled into its runtime, and nothing written to its records."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem, RecordError
from keyferry.images.node.settings import Node
from keyferry.pulls.kubelet_guard import check_root, check_runtime
from keyferry.pulls.puller import Puller
from keyferry.pulls.records.records import inspect_records, load_records
from keyferry.pulls.request import PullOptions
from support.kubelets import Processes, listening, write_config
from support.parts import root as as_root
from support.pulling import FakeTarget, pull_secret, records_in
from support.records import IMAGE, REF, Present, plant
from support.unix_sockets import bind, short_address

NOBODY = 65534
CONTAINER = "pid:[4026532198]"
LOGIN = ("alice", "kf-word")
SECRET = pull_secret("s", "reg.example", *LOGIN)


def refusal(check: Callable[[], object]) -> str:
    """What is said; empty if nothing is refused."""
    try:
        check()
    except EnvironmentProblem as error:
        return str(error)
    return ""


def root_refusal(root: Path, processes: Processes, *, no_kubelet: bool = False) -> str:
    """What is said to whoever writes records below a root."""
    return refusal(lambda: check_root(str(root), Node(str(processes)), no_kubelet=no_kubelet))


def runtime_refusal(socket: Path, processes: Processes, *, no_kubelet: bool = False) -> str:
    """What is said to whoever brings a private image to a runtime."""
    return refusal(lambda: check_runtime(str(socket), Node(str(processes)), no_kubelet=no_kubelet))


def kubelets_root(folder: Path) -> Path:
    """A folder in which a kubelet has been at work."""
    for name in ("pods", "plugins", "plugins_registry", "pod-resources"):
        (folder / name).mkdir(parents=True)
    return folder


def test_without_a_kubelet_nothing_is_refused(processes: Processes, tmp_path: Path) -> None:
    """A laptop, or a node whose kubelet is stopped; sockets that are left are nobody's."""
    root = kubelets_root(tmp_path / "root")
    with listening(root / "pod-resources" / "kubelet.sock"):
        pass
    assert (root / "pod-resources" / "kubelet.sock").is_socket()
    assert root_refusal(root, processes) == ""
    assert runtime_refusal(tmp_path / "runtime.sock", processes) == ""


@pytest.mark.parametrize("spelling", ["root", "root/", "link", "./root/../root"])
def test_the_root_of_a_running_kubelet_is_refused(
    processes: Processes, tmp_path: Path, spelling: str
) -> None:
    """However it is written, and whatever is said; any other root is not."""
    root = kubelets_root(tmp_path / "root")
    (tmp_path / "link").symlink_to(root)
    with processes.kubelet(f"--root-dir={root}") as pid:
        for told in (False, True):
            said = root_refusal(tmp_path / spelling, processes, no_kubelet=told)
            assert f"is the root of a kubelet (process {pid})" in said
            assert "stop it first" in said
        assert root_refusal(tmp_path / "other", processes) == ""


@pytest.mark.parametrize("name", ["pod-resources/kubelet.sock", "device-plugins/kubelet.sock"])
def test_a_kubelet_is_found_by_its_socket(processes: Processes, tmp_path: Path, name: str) -> None:
    """Also from a container that sees none of its processes."""
    root = kubelets_root(tmp_path / "root")
    processes.set_namespace(CONTAINER)
    with listening(root / name) as path:
        assert f"a kubelet that listens at {path}" in root_refusal(root, processes, no_kubelet=True)


def test_a_socket_is_found_below_a_long_path_and_with_many_waiting(
    processes: Processes, tmp_path: Path
) -> None:
    """An address of the system's holds about a hundred bytes; and nobody waits in a queue that is full."""
    root = kubelets_root(tmp_path / ("long" * 40))
    with listening(root / "pod-resources" / "kubelet.sock"):
        assert "a kubelet that listens" in root_refusal(root, processes)
    path = tmp_path / "pod-resources" / "kubelet.sock"
    path.parent.mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        bind(server, path)
        server.listen(0)
        address = stack.enter_context(short_address(path))
        errors = [0]
        while errors[-1] == 0:
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            errors.append(client.connect_ex(address))
        assert errors[-1] == errno.EAGAIN
        assert "a kubelet that listens" in root_refusal(tmp_path, processes)


@pytest.mark.parametrize("hide", ["container", "hidepid"])
def test_where_processes_are_hidden_a_kubelets_root_is_refused_unless_told(
    processes: Processes, tmp_path: Path, hide: str
) -> None:
    """A folder in which no kubelet has been at work is nobody's, and is not concerned."""
    if hide == "container":
        processes.set_namespace(CONTAINER)
    else:
        processes.hide()
    root = kubelets_root(tmp_path / "root")
    said = root_refusal(root, processes)
    assert "cannot tell whether a kubelet uses the root" in said
    assert "--no-kubelet" in said
    assert root_refusal(root, processes, no_kubelet=True) == ""
    assert root_refusal(tmp_path / "own", processes) == ""
    (tmp_path / "own").mkdir()
    assert root_refusal(tmp_path / "own", processes) == ""


def test_the_runtime_of_a_running_kubelet_is_refused(processes: Processes, tmp_path: Path) -> None:
    """By its flag, its config file, or as its image service; a runtime that it does not use is free."""
    socket, other = tmp_path / "runtime.sock", tmp_path / "other.sock"
    config = write_config(tmp_path / "kubelet.yaml", imageServiceEndpoint=f"unix://{socket}")
    with listening(socket), listening(other):
        for flags in (
            [f"--container-runtime-endpoint=unix://{socket}"],
            [f"--container-runtime-endpoint={socket}"],
            [f"--container-runtime-endpoint=unix://{other}", f"--config={config}"],
        ):
            with processes.kubelet(*flags) as pid:
                for told in (False, True):
                    said = runtime_refusal(socket, processes, no_kubelet=told)
                    assert f"a kubelet (process {pid}) uses the container runtime at {socket}" in said
                    assert "--preload" in said
        with processes.kubelet(f"--container-runtime-endpoint=unix://{other}"):
            assert runtime_refusal(socket, processes) == ""
        with processes.kubelet("--container-runtime-endpoint=tcp://127.0.0.1:1"):
            assert runtime_refusal(socket, processes) == ""


def test_a_kubelet_in_a_container_has_files_of_its_own(processes: Processes, tmp_path: Path) -> None:
    """The same name means another runtime and another root there, as on a laptop with kind."""
    other = tmp_path / "other"
    socket, root = tmp_path / "runtime.sock", kubelets_root(tmp_path / "root")
    home = processes.write(17, "kubelet", f"--container-runtime-endpoint={socket}", f"--root-dir={root}")
    (home / "root").symlink_to(other)
    kubelets_root(other / str(root).lstrip("/"))
    with listening(socket), listening(other / str(socket).lstrip("/")) as inner:
        assert runtime_refusal(socket, processes) == ""
        assert root_refusal(root, processes) == ""
        assert "process 17" in runtime_refusal(inner, processes)
        assert "process 17" in root_refusal(other / str(root).lstrip("/"), processes)


def test_a_kubelet_whose_runtime_is_not_known_may_use_any(processes: Processes, tmp_path: Path) -> None:
    """Its config file cannot be read, or its program has no default."""
    socket = tmp_path / "runtime.sock"
    with listening(socket):
        with processes.kubelet(f"--config={tmp_path / 'gone'}"):
            assert "uses the container runtime" in runtime_refusal(socket, processes)
        processes.write(17, "kubelite")
        assert "uses the container runtime" in runtime_refusal(socket, processes)


def test_where_processes_are_hidden_a_runtime_is_refused_unless_it_is_seen_itself(
    processes: Processes, tmp_path: Path
) -> None:
    """In a container, a runtime of the same container has its kubelet there; with hidepid nothing is known."""
    socket = tmp_path / "runtime.sock"
    with listening(socket):
        processes.set_namespace(CONTAINER)
        assert runtime_refusal(socket, processes) == ""
        assert "cannot tell" in runtime_refusal(tmp_path / "nobody.sock", processes)
        processes.hide()
        said = runtime_refusal(socket, processes)
        assert "cannot tell" in said
        assert "--preload" in said
        assert "--no-kubelet" in said
        assert runtime_refusal(socket, processes, no_kubelet=True) == ""


@as_root
def test_another_users_process_keeps_nobody_from_anything(processes: Processes, tmp_path: Path) -> None:
    """Anyone can call a process kubelet; it counts for what its user owns, and for nothing else."""
    root, theirs = kubelets_root(tmp_path / "root"), kubelets_root(tmp_path / "theirs")
    os.chown(theirs, NOBODY, NOBODY)
    socket = tmp_path / "runtime.sock"
    with listening(socket), processes.kubelet(f"--root-dir={root}", user=NOBODY):
        assert root_refusal(root, processes) == ""
        assert runtime_refusal(socket, processes) == ""
    with processes.kubelet(f"--root-dir={theirs}", user=NOBODY) as pid:
        assert f"process {pid}" in root_refusal(theirs, processes)
        with listening(tmp_path / "their.sock", NOBODY) as path:
            assert f"process {pid}" in runtime_refusal(path, processes)


def test_a_puller_does_not_bring_a_private_image_to_a_kubelet(processes: Processes, tmp_path: Path) -> None:
    """Nothing is asked of the runtime, nothing recorded; without a credential, or if told, it is pulled."""
    socket, root = tmp_path / "runtime.sock", tmp_path / "root"
    there = FakeTarget(logins={LOGIN, ("", "")}, runtime_socket=str(socket))
    with listening(socket), processes.kubelet(f"--container-runtime-endpoint=unix://{socket}"):
        records = load_records(str(root))
        puller = Puller(there, records=records)
        with pytest.raises(EnvironmentProblem, match="--preload"):
            puller.pull(IMAGE, PullOptions(pull_secrets=[SECRET]))
        assert (there.asked, records_in(root)) == ([], {})
        assert puller.pull("reg.example/public:v1").action == "pulled"
        told = Puller(there, preload=True).pull(IMAGE, PullOptions(pull_secrets=[SECRET]))
        assert told.used is not None
    assert puller.pull(IMAGE, PullOptions(pull_secrets=[SECRET], pull_policy="Always")).action == "pulled"


def test_a_folder_is_nothing_to_a_kubelet(processes: Processes) -> None:
    """Images in an OCI layout are used by no pod."""
    with processes.kubelet():
        there = FakeTarget(logins={LOGIN})
        assert Puller(there).pull(IMAGE, PullOptions(pull_secrets=[SECRET])).action == "pulled"


def test_records_of_a_running_kubelet_are_not_opened_to_write(processes: Processes, tmp_path: Path) -> None:
    """Not even its folders are made; reading is free."""
    with processes.kubelet(f"--root-dir={tmp_path / 'root'}"):
        with pytest.raises(EnvironmentProblem, match="is the root of a kubelet"):
            load_records(str(tmp_path / "root"))
        assert not (tmp_path / "root").exists()
        plant(tmp_path / "root")
        records = inspect_records(str(tmp_path / "root"), read_only=False)
        assert len(records.list().values) == 1
        assert records.prune([], dry_run=True).removed
        reader = load_records(str(tmp_path / "root"), policy="AlwaysVerify", read_only=True)
        assert reader.decide(IMAGE, REF).rule == "everybody"
        with pytest.raises(RecordError, match="for reading only"):
            reader.record_intent(IMAGE)
        for write in (lambda: records.prune([]), lambda: records.recover(lambda: [Present(id=REF)])):
            with pytest.raises(EnvironmentProblem, match="is the root of a kubelet"):
                write()
        assert len(records.list().values) == 1


def test_a_kubelet_that_starts_later_is_noticed_before_the_next_pull(
    processes: Processes, tmp_path: Path
) -> None:
    """A pull that was begun is recorded to its end."""
    records = load_records(str(tmp_path))
    records.record_intent(IMAGE)
    with processes.kubelet(f"--root-dir={tmp_path}"):
        records.record_pulled(IMAGE, REF, None)
        assert REF in records_in(tmp_path)
        with pytest.raises(EnvironmentProblem, match="is the root of a kubelet"):
            records.record_intent(IMAGE)
    records.record_intent(IMAGE)
