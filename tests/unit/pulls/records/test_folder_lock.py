"""The lock of a folder of records, and of a layout: what may lie in its place, and who waits for whom."""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem, RecordError
from keyferry.pulls.layout.folder import Layout
from keyferry.pulls.records.folder_lock import FolderLock
from support.records import folder_of

# Long enough for a thread that should not have waited to show it; the assertions hold however slow a machine is.
_LITTLE_SECONDS = 0.3
_PATIENCE_SECONDS = 60.0


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
    with pytest.raises(RecordError, match="the lock cannot be used") as caught:
        hold(lock or FolderLock(str(place)))
    assert caught.value.path == str(place / "keyferry.lock")
    assert precious.read_bytes() == b"keep me, all of me"
    assert not (tmp_path / "new").exists()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock as another process does."""
    with path.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def replaced_while_waited_for(path: Path, wait_and_work: Callable[[], None]) -> None:
    """Have somebody wait for a lock, replace its file by one that is locked too, and give up the first."""
    done = threading.Event()
    problems: list[BaseException] = []

    def run() -> None:
        try:
            wait_and_work()
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            problems.append(error)
        done.set()

    thread = threading.Thread(target=run)
    with locked(path):
        thread.start()
        assert not done.wait(_LITTLE_SECONDS)
        new = path.with_name("new-lock")
        new.write_bytes(b"")
        new.chmod(0o600)
        holder = locked(new)
        holder.__enter__()
        new.replace(path)
    try:
        # The lock on the first file is to be had now, and worth nothing.
        assert not done.wait(_LITTLE_SECONDS)
    finally:
        holder.__exit__(None, None, None)
        thread.join(_PATIENCE_SECONDS)
    assert done.is_set()
    assert not problems


def test_a_layouts_lock_that_is_replaced_under_a_waiter_is_waited_for_again(tmp_path: Path) -> None:
    """The file that has the name now is the lock."""
    layout = Layout(str(tmp_path))
    layout.prepare()
    replaced_while_waited_for(tmp_path / ".keyferry" / "lock", layout.prepare)


def test_a_folders_lock_that_is_replaced_under_a_waiter_is_waited_for_again(tmp_path: Path) -> None:
    """The same for records."""
    place = folder_of(tmp_path).parent
    lock = FolderLock(str(place), timeout_seconds=_PATIENCE_SECONDS)
    replaced_while_waited_for(place / "keyferry.lock", lambda: hold(lock))


def test_a_layouts_lock_that_is_a_link_is_an_error(tmp_path: Path) -> None:
    """With the place in it."""
    (tmp_path / ".keyferry").mkdir()
    (tmp_path / ".keyferry" / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentProblem, match=r"\.keyferry/lock: "):
        Layout(str(tmp_path)).prepare()
    assert not (tmp_path / "elsewhere").exists()


def test_the_lock_follows_its_folder(tmp_path: Path) -> None:
    """A folder that was made anew has a new lock, and both programs that use it find that one."""
    place = folder_of(tmp_path).parent
    first, second = FolderLock(str(place)), FolderLock(str(place), timeout_seconds=0.05)
    place.rename(tmp_path / "old")
    folder_of(tmp_path)
    with first.held(), pytest.raises(RecordError, match="held the lock"), second.held():
        raise AssertionError("both have it")
