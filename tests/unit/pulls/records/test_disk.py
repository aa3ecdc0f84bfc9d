"""The files of the records on the disk, and the lock that processes share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry._core.files import Folder
from keyferry.errors import RecordError
from keyferry.pulls.records.disk import MAX_BYTES, Disk, FolderLock
from support.locks import PATIENCE_SECONDS, replaced_while_waited_for
from support.records import folder_of


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Disk(durable=False).make_folder(str(tmp_path), "a", "b")


def put(folder: Folder, content: bytes, mode: int = 0o600) -> Path:
    path = Path(folder.path_of("file"))
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_folders_that_are_missing_are_made_for_us_alone(tmp_path: Path) -> None:
    """Those that are there are closed to others, below the root."""
    tmp_path.chmod(0o755)
    (tmp_path / "a").mkdir(0o755)
    Disk(durable=False).make_folder(str(tmp_path), "a", "b").close()
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")]
    assert modes == [0o755, 0o700, 0o700]


def test_a_folder_that_is_missing_is_none(tmp_path: Path) -> None:
    """A look makes nothing."""
    assert Disk().open_folder(str(tmp_path), "a", "b") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 200_000, MAX_BYTES])
def test_all_of_a_file_is_read(folder: Folder, size: int) -> None:
    """However long it is, up to a limit."""
    content = os.urandom(1000) * (size // 1000) + b"x" * (size % 1000)
    put(folder, content)
    assert Disk().read(folder, "file") == content
    assert Disk().read(folder, "none") is None


def test_a_file_that_is_too_long_is_refused(folder: Folder) -> None:
    """By its length, before it is read."""
    os.truncate(put(folder, b""), MAX_BYTES + 1)
    with pytest.raises(RecordError, match="expected at most") as caught:
        Disk().read(folder, "file")
    assert caught.value.kind == "trust"


def test_a_file_that_grows_while_it_is_read_ends_at_the_limit(folder: Folder) -> None:
    """What somebody goes on writing is neither read for ever nor byte by byte."""
    path, done = put(folder, b"x"), threading.Event()

    def grow() -> None:
        with path.open("ab") as stream:
            while not done.is_set() and stream.tell() <= MAX_BYTES:
                stream.write(b"x" * 65_536)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        data = Disk().read(folder, "file")
        assert data is not None
        assert len(data) <= MAX_BYTES
    except RecordError as error:
        assert "bytes" in error.message
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(("mode", "what"), [(0o620, "write"), (0o602, "write"), (0o604, "read")])
def test_a_file_of_others_is_not_believed(folder: Folder, mode: int, what: str) -> None:
    """Whoever can write it, or has read the hashes in it."""
    put(folder, b"x", mode)
    with pytest.raises(RecordError, match=f"other users can {what} it"):
        Disk().read(folder, "file")


def test_a_folder_that_others_can_write_is_not_believed(folder: Folder) -> None:
    """Not even where the file itself is fine, or none is there."""
    put(folder, b"x")
    Path(folder.path).chmod(0o770)
    for name in ("file", "none"):
        with pytest.raises(RecordError, match="other users can write to this folder"):
            Disk().read(folder, name)


def link(path: Path, precious: Path) -> None:
    path.symlink_to(precious)


def dangling_link(path: Path, precious: Path) -> None:
    path.symlink_to(precious.with_name("new"))


def hard_link(path: Path, precious: Path) -> None:
    path.hardlink_to(precious)


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def lock_folder(path: Path, _: Path) -> None:
    path.mkdir()


def hold(lock: FolderLock) -> None:
    with lock.held():
        pass


PLANTED = [link, dangling_link, hard_link, pipe, lock_folder]


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
