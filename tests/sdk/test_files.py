"""Files with secrets: who may read them, how they are replaced, who works on them at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from keyferry.errors import ProvideError
from keyferry.sdk import Deadline
from keyferry.sdk.files import Lock, read_bounded, read_private, write_private
from support.parts import root
from support.plugins import PATIENCE_SECONDS
from support.sdk_plugins import SOURCE

MOST = 4 * 1024 * 1024


def test_a_file_is_read_whole_up_to_its_limit(tmp_path: Path) -> None:
    """The limit itself is allowed."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_bounded(str(path), "the file", 100) == b"x" * 100
    with pytest.raises(ProvideError, match=r"the file .*/file' is longer than 99 bytes"):
        read_bounded(str(path), "the file", 99)


UNREADABLE = {
    "missing": ("/no/such/file", "no such file or directory"),
    "folder": ("/", "is a directory"),
    "nul": ("a\0b", "its name is invalid"),
    "not-in-a-folder": ("/dev/null/x", "not a directory"),
    "long": ("/" + "x" * 300, "file name too long"),
}


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_cannot_be_read_is_said(case: tuple[str, str]) -> None:
    """What it was to be, where, and why."""
    path, reason = case
    with pytest.raises(ProvideError) as caught:
        read_bounded(path, "the token file")
    assert str(caught.value) == f"the token file {path!r} cannot be read: {reason}"


def test_an_endless_file_is_not_read_to_its_end() -> None:
    """A device has none."""
    with pytest.raises(ProvideError, match="is longer than 1000 bytes"):
        read_bounded("/dev/zero", "the token file", 1000)


def test_a_named_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    """It is empty to one who reads, and nothing at all to one who wants a private file."""
    path = str(tmp_path / "pipe")
    os.mkfifo(path, 0o600)
    assert read_bounded(path, "the token file") == b""
    assert read_private(path) is None


def test_a_pipe_of_a_shell_can_be_read() -> None:
    """``--token-file <(vault read ...)`` is how some hand over a secret."""
    read_end, write_end = os.pipe()

    def write() -> None:
        time.sleep(0.05)
        os.write(write_end, b"token")
        os.close(write_end)

    thread = threading.Thread(target=write)
    thread.start()
    assert read_bounded(f"/dev/fd/{read_end}", "the token file") == b"token"
    thread.join()
    os.close(read_end)


def private(path: Path, mode: int = 0o600) -> Path:
    """A file with a mode."""
    path.write_bytes(b"secret")
    path.chmod(mode)
    return path


def opened(path: Path) -> list[str]:
    """The files that this process has open, of those whose paths begin so."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [each for each in found if each.startswith(str(path))]


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_the_users_own_is_read(tmp_path: Path, mode: int) -> None:
    """Nobody else can have written it."""
    assert read_private(str(private(tmp_path / "file", mode))) == b"secret"


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o602, 0o601, 0o666])
def test_a_file_that_others_may_touch_is_as_good_as_none(tmp_path: Path, mode: int) -> None:
    """A cache that somebody else could have filled is not used."""
    assert read_private(str(private(tmp_path / "file", mode))) is None


@root
def test_a_file_of_somebody_else_is_as_good_as_none(tmp_path: Path) -> None:
    """Also for root, who could read it."""
    path = private(tmp_path / "file")
    os.chown(path, 65534, 65534)
    assert read_private(str(path)) is None


def test_what_is_no_plain_file_is_as_good_as_none(tmp_path: Path) -> None:
    """Links, folders, what is missing, what is too long; and no descriptor is left open."""
    (tmp_path / "link").symlink_to(private(tmp_path / "file"))
    (tmp_path / "folder").mkdir(mode=0o700)
    (private(tmp_path / "long")).write_bytes(b"x" * (MOST + 1))
    for name in ("link", "folder", "missing", "long", "nul\0"):
        assert read_private(f"{tmp_path}/{name}") is None
    assert opened(tmp_path) == []


def test_a_file_is_replaced_and_a_link_is_not_followed(tmp_path: Path) -> None:
    """What the link led to stays as it was."""
    target = private(tmp_path / "target", 0o644)
    link = tmp_path / "link"
    link.symlink_to(target)
    assert write_private(str(link), b"new")
    assert not link.is_symlink()
    assert (target.read_bytes(), read_private(str(link))) == (b"secret", b"new")


def test_an_open_file_loses_its_rights_when_it_is_replaced(tmp_path: Path) -> None:
    """A cache that was readable by others is not, once it is written again."""
    path = private(tmp_path / "file", 0o666)
    assert write_private(str(path), b"new")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["/dev/null/x/y", "/proc/none/x", "a\0b/c", "nul\0"])
def test_a_place_that_cannot_be_written_is_no_failure(path: str) -> None:
    """A cache is a convenience."""
    assert write_private(path, b"x") is False


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither a half-written file nor a temporary one."""
    (tmp_path / "cache" / "x").mkdir(parents=True)
    assert write_private(str(tmp_path / "cache"), b"secret") is False
    assert [item.name for item in tmp_path.iterdir()] == ["cache"]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between writing and putting in place takes the temporary file along."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_private(str(tmp_path / "cache"), b"secret")
    assert list(tmp_path.iterdir()) == []


def test_a_relative_name_is_written_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without a folder needs none."""
    monkeypatch.chdir(tmp_path)
    assert write_private("cache", b"x")
    assert read_private("cache") == b"x"


_WRITER = """
import sys
sys.path.insert(0, {source!r})
from keyferry.sdk.files import write_private
for _ in range(60):
    write_private({path!r}, {byte!r} * 100_000)
"""


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """Two processes that write at once never give a third one half of each."""
    path = str(tmp_path / "cache")
    writers = [
        subprocess.Popen([sys.executable, "-IS", "-c", _WRITER.format(source=SOURCE, path=path, byte=byte)])
        for byte in (b"a", b"b")
    ]
    seen: set[bytes] = set()
    while any(writer.poll() is None for writer in writers):
        data = read_private(path)
        if data is not None:
            seen.add(data)
    assert [writer.wait(PATIENCE_SECONDS) for writer in writers] == [0, 0]
    assert seen <= {b"a" * 100_000, b"b" * 100_000}
    assert seen
    assert [item.name for item in tmp_path.iterdir()] == ["cache"]


_COUNTER = """
import sys
sys.path.insert(0, {source!r})
from keyferry.sdk import Deadline
from keyferry.sdk.files import Lock
for _ in range(25):
    with Lock({path!r}, Deadline(60)) as is_held:
        assert is_held
        number = int(open({path!r}).read())
        open({path!r}, "w").write(str(number + 1))
"""


def test_processes_take_turns(tmp_path: Path) -> None:
    """What one of them counts, none of the others loses."""
    path = tmp_path / "sub" / "count"
    path.parent.mkdir()
    path.write_text("0")
    script = _COUNTER.format(source=SOURCE, path=str(path))
    processes = [subprocess.Popen([sys.executable, "-IS", "-c", script]) for _ in range(4)]
    assert [process.wait(3 * PATIENCE_SECONDS) for process in processes] == [0] * 4
    assert path.read_text() == "100"
    assert (tmp_path / "sub" / "count.lock").stat().st_mode & 0o777 == 0o600


def test_a_lock_that_is_not_to_be_had_is_not_waited_for_beyond_the_deadline(tmp_path: Path) -> None:
    """One works without it, then; and gets it once it is free."""
    path = str(tmp_path / "cache")
    with Lock(path, Deadline(60)) as first:
        assert first
        started = time.monotonic()
        with Lock(path, Deadline(0.2)) as second:
            assert not second
        assert time.monotonic() - started < PATIENCE_SECONDS
    with Lock(path, Deadline(0)) as third:
        assert third


def test_a_lock_file_that_is_replaced_while_one_waits_is_waited_for_again(tmp_path: Path) -> None:
    """A cache folder that was cleared has a new lock, and the old file locks nobody out."""
    path, file = str(tmp_path / "cache"), tmp_path / "cache.lock"
    results: list[bool] = []

    def wait() -> None:
        with Lock(path, Deadline(60)) as is_held:
            results.append(is_held)

    waiter = threading.Thread(target=wait)
    with Lock(path, Deadline(60)):
        waiter.start()
        waiter.join(0.2)
        # The new file is locked before it has the name, so that the waiter cannot be first.
        new = Lock(str(tmp_path / "new"), Deadline(60))
        assert new.__enter__()
        (tmp_path / "new.lock").replace(file)
    try:
        # The file that it first waited for is free now.
        waiter.join(0.3)
        assert results == []
    finally:
        new.__exit__(None, None, None)
        waiter.join(PATIENCE_SECONDS)
    assert results == [True]


@pytest.mark.parametrize("kind", ["hard link", "pipe", "folder"])
def test_what_is_no_lock_file_is_not_locked(tmp_path: Path, kind: str) -> None:
    """One works without a lock, and at once."""
    path, victim = tmp_path / "cache.lock", private(tmp_path / "victim")
    if kind == "hard link":
        path.hardlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with Lock(str(tmp_path / "cache"), Deadline(60)) as is_held:
        assert not is_held


def test_a_lock_of_a_process_that_dies_is_free(tmp_path: Path) -> None:
    """Killed with the lock in its hands, a process does not hold up the others."""
    path = str(tmp_path / "cache")
    script = (
        f"import sys, time; sys.path.insert(0, {SOURCE!r})\n"
        "from keyferry.sdk import Deadline\nfrom keyferry.sdk.files import Lock\n"
        f"with Lock({path!r}, Deadline(60)): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-IS", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.kill()
    with Lock(path, Deadline(60)) as is_held:
        assert is_held


def test_a_lock_where_nothing_can_be_written_is_not_held(tmp_path: Path) -> None:
    """And a link in its place is not followed."""
    (tmp_path / "cache.lock").symlink_to(tmp_path / "victim")
    for path in ("/proc/none/cache", "nul\0", str(tmp_path / "cache")):
        with Lock(path, Deadline(60)) as is_held:
            assert not is_held
    assert not (tmp_path / "victim").exists()


def test_a_file_system_without_locks_costs_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a lock that somebody holds is worth waiting for."""
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    started = time.monotonic()
    with Lock(str(tmp_path / "cache"), Deadline(600)) as is_held:
        assert not is_held
    assert time.monotonic() - started < PATIENCE_SECONDS


def test_a_lock_leaves_no_descriptor(tmp_path: Path) -> None:
    """Held or not."""
    path = str(tmp_path / "cache")
    with Lock(path, Deadline(60)), Lock(path, Deadline(0)):
        assert opened(tmp_path)
    assert opened(tmp_path) == []


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_folders_that_are_made_are_the_users_own(tmp_path: Path, umask: int) -> None:
    """All that were missing, whatever the umask is; those that were there stay as they are."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o755)
    before = os.umask(umask)
    try:
        assert write_private(f"{tmp_path}/there/a/b/cache", b"x")
        with Lock(f"{tmp_path}/there/c/d/cache", Deadline(60)) as is_held:
            assert is_held
    finally:
        os.umask(before)
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {
        "there": 0o755,
        **dict.fromkeys(("there/a", "there/a/b", "there/c", "there/c/d"), 0o700),
        **dict.fromkeys(("there/a/b/cache", "there/c/d/cache.lock"), 0o600),
    }


def test_a_folder_that_is_a_link_to_nowhere_is_not_made(tmp_path: Path) -> None:
    """Whoever put it there would choose where the secret goes."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert write_private(f"{tmp_path}/link/cache", b"secret") is False
    assert write_private(f"{tmp_path}/link/sub/cache", b"secret") is False
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
