"""Files by their names in a folder: no link is followed, no stranger's folder used, nothing half-written."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry._core.bounded import TooLargeError, read_path, read_stream
from keyferry._core.files import DistrustedError, Folder, open_folder
from support.parts import root as as_root

NOBODY = 65534


def by_path(path: Path) -> Folder:
    """A folder as on a system without calls relative to one."""
    return Folder(str(path), None)


@pytest.fixture(params=["by descriptor", "by path"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return by_path(tmp_path) if request.param == "by path" else open_folder(str(tmp_path))


def test_a_file_is_replaced_with_all_of_its_content(folder: Folder, tmp_path: Path) -> None:
    """It has the mode that was asked for, and nothing else is left."""
    for content in (b"first", b"x" * 200_000, b""):
        folder.replace("file", content, mode=0o640)
        assert (tmp_path / "file").read_bytes() == content
        assert os.listdir(tmp_path) == ["file"]
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_draft_can_be_in_another_folder(folder: Folder, tmp_path: Path) -> None:
    """Then only what is finished is ever seen here."""
    drafts = folder.below("drafts", make=0o700)
    (tmp_path / "drafts" / "taken").write_bytes(b"theirs")
    with pytest.raises(FileExistsError) as caught:
        folder.replace("file", b"ours", mode=0o600, draft="taken", drafts=drafts)
    assert caught.value.filename == str(tmp_path / "drafts" / "taken")
    assert not (tmp_path / "file").exists()


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(folder: Folder, tmp_path: Path) -> None:
    """A folder in the place of the file cannot be replaced."""
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        folder.replace("file", b"new", mode=0o600)
    assert caught.value.filename == str(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_is_replaced_and_not_written_through(folder: Folder, tmp_path: Path) -> None:
    """What it leads to stays."""
    (tmp_path / "precious").write_bytes(b"keep me")
    (tmp_path / "file").symlink_to("precious")
    folder.replace("file", b"new", mode=0o600)
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "precious").read_bytes() == b"keep me"


def test_a_link_is_neither_opened_nor_gone_through(folder: Folder, tmp_path: Path) -> None:
    """Not as a file, not as a folder, and not to make what it leads to."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")
    (tmp_path / "file").symlink_to("made")
    for name in ("link", "dangling"):
        with pytest.raises(DistrustedError, match="symbolic link, which is not followed") as caught:
            folder.below(name, make=0o700)
        assert caught.value.filename == str(tmp_path / name)
    with pytest.raises(OSError, match="symbolic links") as refused:
        folder.open("file", os.O_RDWR | os.O_CREAT)
    assert refused.value.filename == str(tmp_path / "file")
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file", "link", "real"]


def test_an_open_folder_is_the_one_that_was_opened(tmp_path: Path) -> None:
    """Whatever becomes of its name: what is done lands in it, and not in what a link in its place leads to."""
    (tmp_path / "victim").mkdir()
    with open_folder(str(tmp_path), "folder", make=0o700) as folder:
        (tmp_path / "folder").rename(tmp_path / "moved")
        (tmp_path / "folder").symlink_to("victim")
        folder.replace("file", b"data", mode=0o600)
        folder.restrict(0o711)
        os.close(folder.create("other", 0o600))
        folder.unlink("other")
        assert folder.names() == ["file"]
        below = folder.below("sub", make=0o700)
        below.close()
    assert sorted(os.listdir(tmp_path / "moved")) == ["file", "sub"]
    assert os.listdir(tmp_path / "victim") == []
    assert stat.S_IMODE((tmp_path / "moved").stat().st_mode) == 0o711


def test_a_link_to_a_folder_is_no_folder(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "c").symlink_to("b")
    (tmp_path / "a").touch()
    assert (folder.names(folders=True), folder.names(folders=False)) == (["b"], ["a", "c"])


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_only_a_plain_file_is_written_in_place(folder: Folder, tmp_path: Path, kind: str) -> None:
    """Anything else would have us write elsewhere."""
    path = tmp_path / "file"
    (tmp_path / "precious").write_bytes(b"keep me")
    makers: dict[str, Callable[[], None]] = {
        "link": lambda: path.symlink_to("precious"),
        "hard link": lambda: path.hardlink_to(tmp_path / "precious"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }
    makers[kind]()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - each has its own number
        folder.open_own("file", os.O_RDWR | os.O_CREAT)
    assert caught.value.filename == str(path)
    assert len(os.listdir("/proc/self/fd")) == before


@as_root
def test_what_belongs_to_a_stranger_is_not_used(tmp_path: Path) -> None:
    """Root, this user and the owner of the first folder are none."""
    for name in ("folder", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_bytes(b"")
    for name in ("folder", "file"):
        os.chown(tmp_path / name, NOBODY, NOBODY)
    with open_folder(str(tmp_path)) as folder:
        with pytest.raises(DistrustedError, match="belongs to user 65534, expected user 0; remove it"):
            folder.below("folder")
        with pytest.raises(DistrustedError, match="belongs to user 65534"):
            folder.open_own("file", os.O_RDWR)
        folder.below("mine").close()
    os.chown(tmp_path, NOBODY, NOBODY)
    with open_folder(str(tmp_path), "folder") as folder:
        assert folder.owners == {0, NOBODY}
    with open_folder(str(tmp_path), "mine"):
        pass


def test_a_lock_counts_only_while_the_file_has_its_name(folder: Folder, tmp_path: Path) -> None:
    """One that was removed or replaced while somebody waited locks nobody out."""
    first = folder.open_own("lock", os.O_RDWR | os.O_CREAT)
    second = folder.open_own("lock", os.O_RDWR | os.O_CREAT)
    try:
        assert folder.lock(first, "lock", waits=False)
        assert not folder.lock(second, "lock", waits=False)
        (tmp_path / "lock").rename(tmp_path / "old")
        os.close(first)
        first = -1
        assert not folder.lock(second, "lock", waits=True)
        (tmp_path / "lock").symlink_to("old")
        assert not folder.lock(second, "lock", waits=False)
        (tmp_path / "old").replace(tmp_path / "lock")
        assert folder.lock(second, "lock", waits=False)
    finally:
        for fd in (first, second):
            if fd >= 0:
                os.close(fd)


def test_what_is_missing_is_named_in_full(folder: Folder, tmp_path: Path) -> None:
    """The system is told a part of the path alone."""
    with pytest.raises(FileNotFoundError) as caught:
        folder.below("none")
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(FileNotFoundError) as caught:
        folder.open("none")
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(FileNotFoundError) as caught:
        folder.rename("none", "other")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "other"), None)
    folder.unlink("none")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Neither on the way down nor where it ends in an error."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to("b")
    before = len(os.listdir("/proc/self/fd"))
    with open_folder(str(tmp_path), "a", "b"):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    for names in (("a", "link"), ("a", "none"), ("a", "b", "none")):
        with pytest.raises(OSError):  # noqa: PT011 - each has its own number
            open_folder(str(tmp_path), *names)
    assert len(os.listdir("/proc/self/fd")) == before
    with open_folder(str(tmp_path), "a", "b") as folder:
        folder.replace("file", b"content", mode=0o600)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("path", ["a/b", "a/b/", "a//b", "./a/b", "a/x/../b"])
def test_folders_that_are_missing_are_made_with_the_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """All of them, wherever the path begins, and however it is spelled."""
    monkeypatch.chdir(tmp_path)
    with open_folder(path, "c", make=0o700) as folder:
        assert os.path.samestat(folder.status(), os.stat("a/b/c"))
        assert os.path.normpath(folder.path) == os.path.join("a", "b", "c")
    for name in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o700


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """It is neither used nor replaced."""
    (tmp_path / "file").write_bytes(b"keep me")
    for names in ("file", "file/below"):
        with pytest.raises(NotADirectoryError) as caught:
            open_folder(f"{tmp_path}/{names}", make=0o700)
        assert caught.value.filename == str(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"keep me"


@pytest.mark.parametrize("umask", [0, 0o077])
def test_a_mode_can_be_exact(folder: Folder, tmp_path: Path, umask: int) -> None:
    """Whatever the umask takes from others."""
    before = os.umask(umask)
    try:
        folder.replace("exact", b"", mode=0o755, is_exact=True)
        folder.replace("other", b"", mode=0o755)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("exact", "other")]
    assert modes == [0o755, 0o755 & ~umask]


def test_a_lock_file_is_open_only_while_it_is_held(folder: Folder) -> None:
    """Who does not get it leaves nothing open, and threads exclude each other as well."""
    before = len(os.listdir("/proc/self/fd"))
    held = folder.lock_file("lock", waits=False)
    assert held is not None
    assert folder.lock_file("lock", waits=False) is None
    os.close(held)
    again = folder.lock_file("lock", waits=True)
    assert again is not None
    os.close(again)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_write_that_fails_names_the_file_also_if_its_draft_cannot_be_removed(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error is told, which says why; and no name that it does not have."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def keep(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "unlink", keep)
    with pytest.raises(OSError, match="No space left") as caught:
        folder.replace("name", b"new", mode=0o600)
    assert str(caught.value) == f"[Errno {errno.ENOSPC}] No space left on device: '{tmp_path / 'name'}'"


def test_no_more_is_read_than_one_byte_past_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_path(path, 1 << 20)) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(TooLargeError, match="it has more than 1 MiB, the most that is read"):
        read_path(path, 1 << 20)
    stream = io.BytesIO(b"x" * 3000)
    with pytest.raises(TooLargeError):
        read_stream(stream, 1000)
    assert stream.tell() == 1001
