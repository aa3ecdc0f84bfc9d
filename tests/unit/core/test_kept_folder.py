"""A folder that stays open: only as long as its path leads to it, and never too many of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from keyferry._core.files import DistrustedError, Folder, open_folder
from keyferry._core.kept_folder import MOST_OPEN, KeptFolder
from support.plugins import exit_code_in_fork


class Keeper:
    """A kept folder at ``above/it`` below a root, and how often it was opened."""

    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / "above" / "it"
        self.path.mkdir(0o700, parents=True)
        self.kept = KeptFolder(str(self.path))
        self.count = 0

    def open(self, *, make: int | None = None) -> Folder:
        """The folder, through the root, following no link below it."""
        return self.kept.open(partial(self._open, make), makes=make is not None)

    def _open(self, make: int | None) -> Folder:
        self.count += 1
        return open_folder(str(self.root), "above", "it", make=make)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_at(folder: Folder, path: Path) -> bool:
    return os.path.samestat(folder.status(), path.lstat())


def test_a_folder_is_opened_once(keeper: Keeper) -> None:
    """Whatever comes and goes in it."""
    first = keeper.open()
    for at in range(5):
        (keeper.path / str(at)).touch()
        assert keeper.open() is first
    assert keeper.count == 1


def made_anew(path: Path) -> None:
    path.rmdir()
    path.mkdir(0o700)


def renamed(path: Path) -> None:
    path.rename(path.with_name("old"))
    path.mkdir(0o700)


def renamed_above(path: Path) -> None:
    path.parent.rename(path.parent.with_name("old"))
    path.mkdir(0o700, parents=True)


def opened_to_others(path: Path) -> None:
    path.chmod(0o755)


@pytest.mark.parametrize("change", [made_anew, renamed, renamed_above, opened_to_others])
def test_another_folder_at_its_path_is_opened(keeper: Keeper, change: Callable[[Path], None]) -> None:
    """The same holds for one whose mode changed, which somebody may want to look at again."""
    keeper.open()
    change(keeper.path)
    assert is_at(keeper.open(), keeper.path)
    assert keeper.count == 2
    keeper.open()
    assert keeper.count == 2


def test_a_link_in_its_place_is_not_followed(keeper: Keeper) -> None:
    """Not even one that leads to the folder itself; when the folder is back, it is used again."""
    keeper.open()
    moved = keeper.path.rename(keeper.path.with_name("moved"))
    keeper.path.symlink_to(moved)
    for _ in range(2):
        with pytest.raises(DistrustedError, match="is a symbolic link"):
            keeper.open()
    keeper.path.unlink()
    moved.rename(keeper.path)
    assert is_at(keeper.open(), keeper.path)


def test_a_link_above_it_leads_to_no_other_folder(keeper: Keeper) -> None:
    """What is behind the link is not what was opened, so the way is gone again, and refused."""
    keeper.open()
    (keeper.root / "victim" / "it").mkdir(parents=True)
    keeper.path.parent.rename(keeper.root / "old")
    keeper.path.parent.symlink_to(keeper.root / "victim")
    with pytest.raises(DistrustedError, match="is a symbolic link"):
        keeper.open()


def test_a_folder_that_is_gone_is_not_there(keeper: Keeper) -> None:
    """And nothing stays open for it."""
    before = descriptors()
    keeper.open()
    keeper.path.rmdir()
    with pytest.raises(FileNotFoundError):
        keeper.open()
    assert keeper.kept.open(lambda: None) is None
    assert descriptors() == before


def test_one_who_makes_folders_is_not_spared_by_one_who_looked(keeper: Keeper) -> None:
    """Making may mend what looking leaves as it is; the other way round it is the same folder."""
    keeper.open()
    made = keeper.open(make=0o700)
    assert keeper.count == 2
    assert keeper.open() is keeper.open(make=0o700) is made
    assert keeper.count == 2


def test_closing_lets_go(keeper: Keeper) -> None:
    """So does forgetting it; afterwards it can be opened again."""
    before = descriptors()
    keeper.open()
    assert descriptors() == before + 1
    keeper.kept.close()
    assert descriptors() == before
    keeper.open()
    assert descriptors() == before + 1
    del keeper.kept
    assert descriptors() == before


def test_a_folder_that_is_used_stays_open(keeper: Keeper) -> None:
    """However it is let go of meanwhile; it is the one that was given out, not the one at the path now."""
    folder = keeper.open()
    (keeper.path / "file").write_bytes(b"old")
    renamed(keeper.path)
    keeper.open()
    keeper.kept.close()
    os.close(folder.open("file"))
    assert folder.descriptor is not None


def test_of_thousands_only_some_stay_open(tmp_path: Path) -> None:
    """Those that were opened first are closed, and opened again when they are needed."""
    before = descriptors()
    keepers = [Keeper(tmp_path / str(at)) for at in range(2000)]
    for keeper in keepers:
        keeper.open()
    assert descriptors() <= before + MOST_OPEN
    assert is_at(keepers[0].open(), keepers[0].path)
    assert keepers[0].count == 2
    del keepers, keeper
    assert descriptors() <= before


def test_one_that_is_opened_again_and_again_closes_no_other(tmp_path: Path) -> None:
    restless, quiet = Keeper(tmp_path / "restless"), Keeper(tmp_path / "quiet")
    quiet.open()
    for _ in range(2 * MOST_OPEN):
        restless.open()
        restless.kept.close()
    quiet.open()
    assert quiet.count == 1


def test_many_threads_use_folders_that_come_and_go(tmp_path: Path) -> None:
    """Each always finds its own file, however many are closed and replaced under them."""
    keepers = [Keeper(tmp_path / str(at)) for at in range(MOST_OPEN + 8)]
    for at, keeper in enumerate(keepers):
        (keeper.path / f"file-{at}").touch()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                for at, keeper in enumerate(keepers):
                    assert keeper.open().has(f"file-{at}")
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        for keeper in keepers:
            keeper.kept.close()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_forked_process_opens_its_own(keeper: Keeper) -> None:
    """It may have closed all that it was born with, and the numbers may be those of other files by now."""
    first = keeper.open()

    def work() -> None:
        assert first.descriptor is not None
        other = os.open(keeper.root, os.O_RDONLY)
        os.dup2(other, first.descriptor)
        assert is_at(keeper.open(), keeper.path)
        keeper.kept.close()
        assert os.path.samestat(os.fstat(first.descriptor), keeper.root.stat())

    assert exit_code_in_fork(work) == 0
    assert keeper.open() is first
    assert is_at(first, keeper.path)


def test_a_folder_without_a_descriptor_is_opened_each_time(keeper: Keeper) -> None:
    """As on a system that knows files by their paths alone."""
    count = 0

    def by_path() -> Folder:
        nonlocal count
        count += 1
        return Folder(str(keeper.root), None).descend("above", "it")

    before = descriptors()
    for _ in range(3):
        assert keeper.kept.open(by_path).path == str(keeper.path)
    assert count == 3
    assert descriptors() == before
