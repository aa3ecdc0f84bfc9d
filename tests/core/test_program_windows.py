"""What is done on Windows, where pipes have threads and programs have handles, keeps the promises of other systems."""

from __future__ import annotations

import errno
import gc
import math
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from keyferry._core.program import start
from keyferry._core.program.start import Program
from keyferry.invoke.run import Ending, Limits, ProcessOutcome, Tail, run
from support.plugins import PATIENCE_SECONDS, is_running, read_pids, wait_until, write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

SHELL = "/bin/sh"


@pytest.fixture(autouse=True)
def as_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every system can do what is done there, but for the names of programs."""
    monkeypatch.setattr(start, "IS_WINDOWS", True)


def shell(script: str, stdin: bytes = b"", limits: Limits = Limits(timeout_seconds=60)) -> ProcessOutcome:
    return run((SHELL, "-c", script), stdin=stdin, limits=limits)


def test_output_and_status_come_back() -> None:
    """Each stream is its own."""
    done = shell("cat; echo oops >&2; exit 3", b"hello")
    assert (done.ending, done.status, done.stdout, done.stderr) == (Ending.EXITED, 3, b"hello", b"oops\n")
    assert shell("ulimit -c 0; kill -9 $$").status == -9


@pytest.mark.parametrize("size", [0, 4096, 65_537, 5_000_000])
def test_input_of_any_size_arrives_whole(size: int) -> None:
    """While as much is written, on both output streams."""
    data = (b"0123456789" * (size // 10 + 1))[:size]
    done = shell(
        "tee /dev/stderr",
        data,
        Limits(timeout_seconds=PATIENCE_SECONDS, stdout_bytes=size, stderr_bytes=size),
    )
    assert (done.stdout, done.stderr) == (data, data)


def test_input_that_is_never_read_is_no_error() -> None:
    """The program closed it early."""
    done = shell("exec <&-; echo done", b"x" * 1_000_000)
    assert (done.ending, done.stdout) == (Ending.EXITED, b"done\n")


@pytest.mark.parametrize(
    "script",
    ["echo said; sleep 60 & echo $! >>{0}; exec sleep 60", "echo said; exec 1>&- 2>&-; sleep 60"],
    ids=["a child holds the output", "the output is closed"],
)
def test_past_the_deadline_the_whole_group_is_killed(script: str, tmp_path: Path) -> None:
    """What was written before is kept."""
    pids = tmp_path / "pids"
    # On a busy machine a shell may need longer to begin.
    for seconds in (0.2, 1, 5, 20):
        limits = Limits(timeout_seconds=seconds)
        done = shell(f"echo $$ >>{pids}; {script.format(pids)}", limits=limits)
        assert (done.ending, done.status) == (Ending.TIMED_OUT, -9)
        if done.stdout:
            break
    assert done.stdout == b"said\n"
    for pid in read_pids(pids, 1):
        wait_until(lambda pid=pid: not is_running(pid))  # type: ignore[misc] # a default is how a lambda keeps it


@pytest.mark.parametrize("seconds", [math.inf, 1e15, 0.0, -1.0])
def test_a_timeout_can_be_of_any_length(seconds: float) -> None:
    """One that no clock reaches is as good as none; one of nothing has passed at once."""
    done = shell("exec >&- 2>&-; sleep 0.1", limits=Limits(timeout_seconds=seconds))
    assert done.ending is (Ending.EXITED if seconds > 0 else Ending.TIMED_OUT)


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("head -c 1000 /dev/zero", Ending.EXITED),
        ("head -c 1001 /dev/zero", Ending.STDOUT_LIMIT),
        ("yes", Ending.STDOUT_LIMIT),
        ("head -c 2000 /dev/zero >&2", Ending.EXITED),
        ("head -c 2001 /dev/zero >&2", Ending.STDERR_LIMIT),
        ("yes >&2", Ending.STDERR_LIMIT),
    ],
)
def test_a_flood_is_cut_off(script: str, ending: Ending) -> None:
    """At the first byte beyond the limit."""
    limits = Limits(
        timeout_seconds=PATIENCE_SECONDS, stdout_bytes=1000, stderr_bytes=10, stderr_drained_bytes=2000
    )
    done = shell(script, limits=limits)
    assert done.ending is ending
    assert len(done.stdout) <= 1000
    assert len(done.stderr) == (10 if ">&2" in script else 0)


def test_a_given_environment_is_the_whole_of_it() -> None:
    """Whatever bytes it has."""
    assert run(("/usr/bin/env",), environ={b"A": b"\xff b"}).stdout == b"A=\xff b\n"
    assert run(("/usr/bin/env",), environ={}).stdout == b""


def test_nothing_is_left_open_or_waiting() -> None:
    """Neither descriptors nor threads, also of a start that fails."""
    gc.collect()  # else what other tests left may be closed meanwhile
    before, threads = len(os.listdir("/dev/fd")), threading.active_count()
    for _ in range(5):
        shell("cat", b"x" * 100_000)
        with pytest.raises(FileNotFoundError):
            run(("/nonexistent/program",))
    wait_until(lambda: threading.active_count() <= threads, "the threads of the pipes")
    assert len(os.listdir("/dev/fd")) == before


def test_a_program_can_be_on_our_own_streams(tmp_path: Path) -> None:
    """With our input, and an error stream of our choice."""
    (tmp_path / "input").write_text("given\n")
    with (tmp_path / "input").open("rb") as given, (tmp_path / "log").open("wb") as log:
        done = run(
            ("name", "-c", 'cat; echo "$0"; echo said >&2; exit 3'),
            program=SHELL,
            environ=os.environb,
            terminal=(given.fileno(), log.fileno()),
        )
    assert (done.ending, done.status, done.stdout) == (Ending.EXITED, 3, b"given\nname\n")
    assert (tmp_path / "log").read_bytes() == b"said\n"
    started = time.monotonic()
    late = run(
        ("sleep", "60"), program="/bin/sleep", environ={}, limits=Limits(timeout_seconds=0.2), terminal=(0, 2)
    )
    assert (late.ending, late.status) == (Ending.TIMED_OUT, -9)
    assert time.monotonic() - started < PATIENCE_SECONDS


def test_a_process_that_is_left_behind_keeps_the_standard_error(tmp_path: Path) -> None:
    """It neither delays the end nor hides what was written."""
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; touch {tmp_path}/lived"
    done = run(
        (SHELL, "-c", f"echo said >&2; ({wait}) >/dev/null & echo done"), stdin=None, stderr_tail=Tail()
    )
    (tmp_path / "go").touch()
    wait_until((tmp_path / "lived").exists, "the process to end")
    assert (done.ending, done.stdout, done.stderr) == (Ending.EXITED, b"done\n", b"said\n")


@pytest.mark.parametrize("name", ["p.bat", "p.cmd", "P.CMD", "p.bat. ."])
def test_a_batch_file_is_refused(name: str, tmp_path: Path) -> None:
    """A shell would read its arguments anew."""
    path = write_executable(tmp_path / name, "#!/bin/sh\necho ran\n")
    with pytest.raises(OSError, match=r"[Ee]xec format error") as caught:
        run((str(path),))
    assert caught.value.errno == errno.ENOEXEC


def test_an_open_file_cannot_be_run() -> None:
    """Its descriptor would have to stay open in the program."""
    with pytest.raises(OSError, match="not implemented"):
        run(("x",), program=0, environ={})


def test_a_bare_name_is_found_in_path_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the working directory, whoever may have written there."""
    write_executable(tmp_path / "acme-login", "#!/bin/sh\nexit 7\n")
    monkeypatch.chdir(tmp_path)
    for path, is_found in (("", False), (".", False), (f"/bin:{tmp_path}", True)):
        monkeypatch.setenv("PATH", path)
        program = Program()
        try:
            if is_found:
                program.start(None, ["acme-login"], None)
                pump = program.pump(b"", Limits())
                assert program.follow(pump, time.monotonic() + PATIENCE_SECONDS) is Ending.EXITED
                assert program.status == 7
            else:
                with pytest.raises(FileNotFoundError):
                    program.start(None, ["acme-login"], None)
        finally:
            program.end()
