"""What an agent leaves beside its socket is removed once it has ended, and nothing else."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from keyferry.bridge.kubelet_install import remove_socket_folder
from keyferry.errors import EnvironmentProblem
from support.kubelets import listening

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets of Unix")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A socket that nobody listens to any more, and its lock."""
    path = tmp_path / "keyferry" / "agent.sock"
    with listening(path):
        Path(f"{path}.lock").touch()
    return path


def test_a_folder_that_an_agent_has_left_is_removed(place: Path) -> None:
    assert place.is_socket()
    assert remove_socket_folder(str(place)) == ()
    assert not place.parent.exists()


def test_a_folder_that_does_not_exist_is_no_problem(tmp_path: Path) -> None:
    assert remove_socket_folder(str(tmp_path / "none" / "agent.sock")) == ()


def test_the_socket_of_an_agent_that_was_killed_while_it_started_is_removed(place: Path) -> None:
    place.rename(f"{place}.4711")
    assert remove_socket_folder(str(place)) == ()
    assert not place.parent.exists()


def test_files_of_others_stay_and_are_named(place: Path) -> None:
    for name in ("other", "agent.sock.txt", "agent.sock.x1"):
        (place.parent / name).touch()
    assert remove_socket_folder(str(place)) == ("agent.sock.txt", "agent.sock.x1", "other")
    assert sorted(os.listdir(place.parent)) == ["agent.sock.txt", "agent.sock.x1", "other"]


def test_nothing_is_removed_while_an_agent_listens(tmp_path: Path) -> None:
    path = tmp_path / "keyferry" / "agent.sock"
    with listening(path):
        with pytest.raises(EnvironmentProblem, match="an agent listens here; stop it first"):
            remove_socket_folder(str(path))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_what_is_no_socket_is_not_removed(place: Path) -> None:
    place.unlink()
    place.write_text("mine")
    assert remove_socket_folder(str(place)) == ("agent.sock",)
    assert place.read_text() == "mine"
