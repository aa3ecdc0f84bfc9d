"""The socket is put in its place without a gap, removed only by its owner, and never put where others can write."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from keyferry import EnvironmentProblem
from keyferry._net.listen_address import ListenAddress
from keyferry.agent.sockets import (
    bind_socket,
    check_folder,
    inherit_sockets,
    listen_at,
    named_peer_of,
    peer_of,
)
from support.parts import root
from support.plugins import write_executable


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A place in a folder that the agent makes."""
    return str(tmp_path / "run" / "agent.sock")


def connect(path: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    return client


def test_the_socket_has_its_mode_from_the_first_moment(path: str) -> None:
    listener = bind_socket(path, 0o660)
    assert os.stat(path).st_mode & 0o777 == 0o660
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o750
    assert not listener.is_inherited
    connect(path).close()
    listener.remove()
    assert not os.path.exists(path)
    listener.remove()
    listener.socket.close()


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_nobody_else_can_use_the_socket_before_it_has_its_group_and_mode(
    path: str, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """Whatever the umask is; it is the same again afterwards."""
    seen = []
    change = os.chmod

    def note(name: str, mode: int) -> None:
        seen.append((os.path.basename(name), os.stat(name).st_mode & 0o777))
        change(name, mode)

    os.mkdir(os.path.dirname(path), 0o750)
    before = os.umask(umask)
    try:
        monkeypatch.setattr(os, "chmod", note)
        listener = bind_socket(path, 0o666)
    finally:
        found = os.umask(before)
    listener.socket.close()
    assert seen == [(f"agent.sock.{os.getpid()}", 0o600)]
    assert found == umask


def test_a_lock_that_is_a_link_is_not_followed(path: str, tmp_path: Path) -> None:
    os.mkdir(os.path.dirname(path), 0o750)
    os.symlink(tmp_path / "elsewhere", f"{path}.lock")
    with pytest.raises(EnvironmentProblem, match=r"agent\.sock\.lock: cannot be opened: too many levels"):
        bind_socket(path, 0o600)
    assert not (tmp_path / "elsewhere").exists()
    assert not os.path.exists(path)


def test_a_later_process_takes_the_place_and_the_earlier_one_leaves_it_alone(path: str) -> None:
    """Who is connected stays with the earlier one."""
    first = bind_socket(path, 0o600)
    early = connect(path)
    second = bind_socket(path, 0o600)
    assert (first.is_in_place(), second.is_in_place()) == (False, True)
    late = connect(path)
    first.remove()
    assert second.is_in_place()
    served, _ = first.socket.accept()
    also, _ = second.socket.accept()
    for each in (early, late, served, also, first.socket, second.socket):
        each.close()
    second.remove()


def test_only_a_socket_is_replaced(path: str) -> None:
    Path(path).parent.mkdir()
    Path(path).write_text("precious")
    with pytest.raises(EnvironmentProblem, match="no socket"):
        bind_socket(path, 0o600)
    assert Path(path).read_text() == "precious"
    assert sorted(os.listdir(os.path.dirname(path))) == ["agent.sock", "agent.sock.lock"]


@pytest.mark.parametrize(
    ("outer", "inner", "is_link", "problem"),
    [
        pytest.param(0o755, 0o755, False, "", id="nobody else"),
        pytest.param(0o755, 0o757, False, "other users can write", id="others"),
        # Who can rename a folder can replace everything in it.
        pytest.param(0o777, 0o755, False, "other users can write", id="others above"),
        pytest.param(0o777, 0o755, True, "other users can write", id="others above what a link leads to"),
        pytest.param(0o1777, 0o755, False, "", id="sticky above"),
        # Others could put a socket there before the agent does.
        pytest.param(
            0o755, 0o1777, False, "use a folder of its own, such as .*/inner/keyferry$", id="sticky"
        ),
    ],
)
def test_a_folder_that_others_can_write_is_refused(
    tmp_path: Path, outer: int, inner: int, is_link: bool, problem: str
) -> None:
    folder, link = tmp_path / "outer" / "inner", tmp_path / "link"
    folder.mkdir(parents=True)
    folder.chmod(inner)
    folder.parent.chmod(outer)
    link.symlink_to(folder)
    with pytest.raises(EnvironmentProblem, match=problem) if problem else nullcontext():
        check_folder(str(link if is_link else folder))


@pytest.mark.parametrize(
    ("place", "problem"),
    [("none", "no such file or directory"), ("file", "file: is not a folder")],
)
def test_what_is_no_folder_is_refused(tmp_path: Path, place: str, problem: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentProblem, match=problem):
        check_folder(str(tmp_path / place))


@root
def test_a_folder_of_another_user_is_refused(path: str) -> None:
    folder = Path(path).parent
    folder.mkdir(mode=0o755)
    os.chown(folder, 12345, 12345)
    with pytest.raises(EnvironmentProblem, match="user 12345 owns"):
        bind_socket(path, 0o600)


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / ("x" * 120))
    with pytest.raises(
        EnvironmentProblem, match=f"{path}: found a path of {len(path)} bytes, expected at most 99"
    ):
        bind_socket(path, 0o600)


def test_the_longest_path_has_a_place_for_the_draft(path: str) -> None:
    """Whatever the number of the process is."""
    longest = os.path.dirname(path) + "/"
    longest += "x" * (99 - len(longest))
    listener = bind_socket(longest, 0o600)
    connect(longest).close()
    listener.socket.close()
    listener.remove()


INHERIT = """
import os, sys
from keyferry.agent.sockets import inherit_sockets
os.dup2(int(sys.argv[1]), 3)
environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "agent"}
[one] = inherit_sockets(environ, 1)
one.remove()
print(one.path, one.is_inherited, os.path.exists(one.path), os.get_inheritable(3), environ)
"""


def inherit(given: socket.socket) -> subprocess.CompletedProcess[str]:
    """Run a process that has a socket as descriptor 3, which may be in use here."""
    command = [sys.executable, "-c", INHERIT, str(given.fileno())]
    return subprocess.run(command, pass_fds=[given.fileno()], capture_output=True, text=True, check=False)


def test_an_inherited_socket_is_used_and_left(tmp_path: Path) -> None:
    """The path is systemd's; plugins see neither the variables nor the socket."""
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)
        bound.listen()
        done = inherit(bound)
    assert done.stdout == f"{path} True True False {{}}\n", done.stderr


def test_what_is_inherited_must_be_a_listening_unix_socket() -> None:
    with socket.socket(socket.AF_INET) as wrong:
        assert "no listening Unix socket" in inherit(wrong).stderr


def test_sockets_for_another_process_are_not_taken() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1"}
    assert inherit_sockets(environ, os.getpid()) == []
    assert environ == {}


def test_a_socket_that_cannot_listen_is_closed(path: str) -> None:
    os.makedirs(f"{path}.{os.getpid()}")  # where the socket is put before it has its name
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(EnvironmentProblem, match="cannot listen"):
        bind_socket(path, 0o600)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_port_that_is_taken_is_named_and_nothing_stays_open() -> None:
    """The agent may try again: what it could not use must not hold the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(EnvironmentProblem) as caught:
            listen_at(ListenAddress(host="127.0.0.1", port=port, is_loopback=True), "metrics", 1)
        assert len(os.listdir("/proc/self/fd")) == before
    assert str(caught.value) == f"metrics: cannot listen at 127.0.0.1:{port}: address already in use"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"absent/run: cannot be created: no such file or directory"):
        bind_socket(str(tmp_path / "absent" / "run" / "agent.sock"), 0o600)


MANY_GROUPS = """
import os, socket, sys
os.setgroups(range(20_000, 20_000 + int(sys.argv[2])))
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
sys.stdin.read()
"""


@root
@pytest.mark.parametrize(("number", "known"), [(64, 64), (65, 65), (256, 256), (257, 0)])
def test_the_groups_of_a_caller_are_known_up_to_a_limit(path: str, number: int, known: int) -> None:
    """Beyond it a caller has fewer rights, not more."""
    listener = bind_socket(path, 0o600)
    listener.socket.setblocking(True)
    with (
        listener.socket,
        subprocess.Popen(
            [sys.executable, "-c", MANY_GROUPS, path, str(number)], stdin=subprocess.PIPE
        ) as client,
    ):
        served, _ = listener.socket.accept()
        with served:
            assert peer_of(served).gids == {os.getegid(), *range(20_000, 20_000 + known)}
        client.communicate()


CONNECT = "import socket, sys; made = socket.socket(socket.AF_UNIX); made.connect(sys.argv[1])"


def test_a_caller_that_is_a_script_has_the_name_of_the_script(path: str, tmp_path: Path) -> None:
    script = write_executable(tmp_path / "a-client", f"#!{sys.executable} -I\n{CONNECT}; sys.stdin.read()\n")
    listener = bind_socket(path, 0o600)
    listener.socket.setblocking(True)
    with (
        listener.socket,
        subprocess.Popen([script, path], stdin=subprocess.PIPE) as client,
        listener.socket.accept()[0] as accepted,
    ):
        assert named_peer_of(accepted).program.endswith(" (a-client)")
        client.communicate()
        # Another process may have its number by now.
        assert named_peer_of(accepted).program == ""
