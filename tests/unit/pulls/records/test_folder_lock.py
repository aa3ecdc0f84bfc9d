"""The lock of a folder of records: what may lie in its place, and who waits for whom."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry.errors import RecordError
from keyferry.pulls.records.disk import FolderLock
from support.locks import PATIENCE_SECONDS, replaced_while_waited_for
from support.records import folder_of


def link(path: Path, precious: Path) -> None:
    path.symlink_to(precious)


def dangling_link(path: Path, precious: Path) -> None:
    path.symlink_to(precious.with_name("new"))


def hard_link(path: Path, precious: Path) -> None:
    path.hardlink_to(precious)


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, _: Path) -> None:
    path.mkdir()


def hold(lock: FolderLock) -> None:
    with lock.held():
        pass


PLANTED = [link, dangling_link, hard_link, pipe, folder]


@pytest.mark.parametrize("plant", PLANTED)
@pytest.mark.parametrize("when", ["opened", "held"])
def test_what_lies_in_the_place_of_the_lock_is_not_written_to(
    tmp_path: Path, plant: Callable[[Path, Path], None], when: str
) -> None:
    """A number is written into the lock, so it must be a plain file with one name."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep me, all of me")
    place = folder_of(tmp_path).parent
    lock = FolderLock(str(place)) if when == "held" else None
    (place / "keyferry.lock").unlink(missing_ok=True)
    plant(place / "keyferry.lock", precious)
    with pytest.raises(RecordError, match="cannot use the lock") as caught:
        hold(lock or FolderLock(str(place)))
    assert caught.value.path == str(place / "keyferry.lock")
    assert precious.read_bytes() == b"keep me, all of me"
    assert not (tmp_path / "new").exists()


def test_a_folders_lock_that_is_replaced_under_a_waiter_is_waited_for_again(tmp_path: Path) -> None:
    """The file that has the name now is the lock."""
    place = folder_of(tmp_path).parent
    lock = FolderLock(str(place), timeout_seconds=PATIENCE_SECONDS)
    replaced_while_waited_for(place / "keyferry.lock", lambda: hold(lock))


def test_the_lock_follows_its_folder(tmp_path: Path) -> None:
    """A folder that was made anew has a new lock, and both programs that use it find that one."""
    place = folder_of(tmp_path).parent
    first, second = FolderLock(str(place)), FolderLock(str(place), timeout_seconds=0.05)
    place.rename(tmp_path / "old")
    folder_of(tmp_path)
    with first.held(), pytest.raises(RecordError, match="held the lock"), second.held():
        raise AssertionError("both have it")
