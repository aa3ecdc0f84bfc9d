"""The folder of the agent's socket, given to the agent's user and to nobody who could misuse it."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from keyferry.bridge.kubelet_install import give_socket_folder
from keyferry.errors import EnvironmentProblem
from support import parts

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="owners of Unix"), parts.root]
USER = 1234


def test_a_folder_is_made_and_given(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "agent.sock"
    give_socket_folder(str(place), USER)
    found = place.parent.stat()
    assert (found.st_uid, found.st_mode & 0o777) == (USER, 0o750)
    assert place.parent.parent.stat().st_uid == 0


def test_what_an_agent_of_root_left_is_given_too(tmp_path: Path) -> None:
    """Its successor, which is not root, replaces the socket, and locks the file beside it."""
    place = tmp_path / "agent.sock"
    tmp_path.chmod(0o777)
    (tmp_path / "agent.sock.lock").touch(0o600)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    give_socket_folder(str(place), USER)
    assert {each.stat().st_uid for each in (tmp_path, *tmp_path.iterdir())} == {USER}
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("kind", ["other", "folder", "hard link"])
def test_a_folder_with_anything_else_is_not_given(tmp_path: Path, kind: str) -> None:
    """Not /run for /run/agent.sock; nor a second name of a file that is elsewhere."""
    folder = tmp_path / "run"
    folder.mkdir()
    if kind == "other":
        (folder / "other").touch()
    elif kind == "folder":
        (folder / "agent.sock.d").mkdir()
    else:
        (tmp_path / "shadow").touch()
        os.link(tmp_path / "shadow", folder / "agent.sock.lock")
    with pytest.raises(EnvironmentProblem, match="give the socket a folder of its own"):
        give_socket_folder(str(folder / "agent.sock"), USER)
    assert {each.stat().st_uid for each in (folder, *folder.iterdir())} == {0}


def test_what_is_given_already_is_left(tmp_path: Path) -> None:
    """An agent's user could have put anything there; none of it is given to that user."""
    os.chown(tmp_path, USER, -1)
    (tmp_path / "agent.sock.lock").touch()
    give_socket_folder(str(tmp_path / "agent.sock"), USER)
    assert (tmp_path / "agent.sock.lock").stat().st_uid == 0


def test_a_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentProblem, match="cannot be given to user 1234: not a directory"):
        give_socket_folder(str(tmp_path / "file" / "agent.sock"), USER)
