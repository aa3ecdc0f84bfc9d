"""One run: its limits, its streams, its status, as a plugin of a node and as one of a cluster.

On Windows pipes have threads and programs have handles. What is promised there as well is tried both ways, since every
system can do what is done there.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keyferry._core.program import kill, start
from keyferry.invoke.run import Ending, Limits, ProcessOutcome, Tail, run
from support.plugins import PATIENCE_SECONDS, Node, is_running, read_pids, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


@pytest.fixture(autouse=True)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what is done on Windows, if the test asks for it."""
    monkeypatch.setattr(start, "IS_WINDOWS", getattr(request, "param", False))


everywhere = pytest.mark.parametrize("system", [False, True], ids=["here", "as on Windows"], indirect=True)
# A time-out that a shell needs to begin: on a busy machine the next one is tried.
ENOUGH_FOR_A_SHELL = (0.2, 1, 5, 20)


def shell(text: str, stdin: bytes = b"", limits: Limits = Limits(timeout_seconds=60)) -> ProcessOutcome:
    """Run a shell command."""
    return run(("/bin/sh", "-c", text), stdin=stdin, limits=limits)


def flood(count: int, to: str = "1") -> str:
    """A shell command that writes so many bytes."""
    return f"head -c {count} /dev/zero >&{to}"


# Output


@everywhere
@pytest.mark.parametrize(
    ("script", "ending", "kept"),
    [
        (flood(0), Ending.EXITED, (0, 0)),
        (flood(100), Ending.EXITED, (100, 0)),
        (flood(101), Ending.STDOUT_LIMIT, (0, 0)),
        (flood(1000, to="2"), Ending.EXITED, (0, 10)),
        (flood(1001, to="2"), Ending.STDERR_LIMIT, (0, 10)),
        ("yes", Ending.STDOUT_LIMIT, (0, 0)),
        ("yes >&2", Ending.STDERR_LIMIT, (0, 10)),
    ],
)
def test_output_up_to_the_limits_is_kept(script: str, ending: Ending, kept: tuple[int, int]) -> None:
    """A limit itself is allowed, the byte after it is not; errors beyond what is kept have a limit of their own."""
    limits = Limits(
        timeout_seconds=PATIENCE_SECONDS, stdout_bytes=100, stderr_bytes=10, stderr_drained_bytes=1000
    )
    outcome = shell(script, limits=limits)
    assert outcome.ending is ending
    assert (len(outcome.stdout), len(outcome.stderr)) == kept


@pytest.mark.parametrize("count", [65_536, 1_000_000])
def test_output_of_any_size_is_whole(count: int) -> None:
    """No byte is lost or doubled where reads meet."""
    outcome = shell(f"{flood(count - 2)}; printf ab")
    assert len(outcome.stdout) == count
    assert outcome.stdout.endswith(b"\0ab")


@everywhere
@pytest.mark.parametrize(
    "end",
    ["sleep 60 & echo $! >>{0}; exec sleep 60", "exec 1>&- 2>&-; sleep 60"],
    ids=["a child holds the output", "the output is closed"],
)
def test_past_the_deadline_the_whole_group_is_killed(end: str, tmp_path: Path) -> None:
    """What was written before is there."""
    pids = tmp_path / "pids"
    script = f"echo $$ >>{pids}; echo out; echo err >&2; {end.format(pids)}"
    for seconds in ENOUGH_FOR_A_SHELL:
        outcome = shell(script, limits=Limits(timeout_seconds=seconds))
        assert (outcome.ending, outcome.status) == (Ending.TIMED_OUT, -9)
        if outcome.stderr:
            break
    assert (outcome.stdout, outcome.stderr) == (b"out\n", b"err\n")
    for pid in read_pids(pids, 1):
        wait_until(lambda pid=pid: not is_running(pid))  # type: ignore[misc] # a default is how a lambda keeps it


@pytest.mark.parametrize("kept", [0, 5, 64 * 1024])
def test_the_tail_of_the_errors_is_kept(kept: int) -> None:
    """Of a long log the last bytes stay, exactly as many as allowed."""
    outcome = shell("seq 50000 >&2", limits=Limits(timeout_seconds=20, stderr_bytes=kept))
    log = "".join(f"{number}\n" for number in range(1, 50_001)).encode()
    assert outcome.stderr == log[len(log) - kept :]


def test_an_outcome_shows_no_output() -> None:
    """What a program printed does not stand in the text of the outcome."""
    outcome = shell("echo hunter2; echo hunter2 >&2")
    assert "hunter2" not in repr(outcome)


# Input


@everywhere
@pytest.mark.parametrize("size", [0, 65_537, 5_000_000])
def test_input_of_any_size_arrives_whole(size: int) -> None:
    """While as much is written, on both output streams."""
    data = (b"0123456789" * (size // 10 + 1))[:size]
    limits = Limits(timeout_seconds=PATIENCE_SECONDS, stdout_bytes=size, stderr_bytes=size)
    done = shell("tee /dev/stderr", data, limits)
    assert (done.stdout, done.stderr) == (data, data)


@everywhere
def test_input_that_is_never_read_is_no_error() -> None:
    """The program closed it early."""
    done = shell("exec <&-; echo done", b"x" * 1_000_000)
    assert (done.ending, done.stdout) == (Ending.EXITED, b"done\n")


# Time


@everywhere
@pytest.mark.parametrize("seconds", [math.inf, 1e15, 0.0, -1.0])
def test_a_timeout_can_be_of_any_length(seconds: float) -> None:
    """One that no clock reaches is as good as none; one of nothing has passed at once."""
    outcome = shell("sleep 0.1; exec >&- 2>&-; sleep 0.1", limits=Limits(timeout_seconds=seconds))
    assert outcome.ending is (Ending.EXITED if seconds > 0 else Ending.TIMED_OUT)


# Ends


@everywhere
@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 255", 255), *((f"ulimit -c 0; kill -{n} $$", -n) for n in (9, 15, 34))],
)
def test_a_status_is_passed_on(script: str, status: int) -> None:
    """A signal is a negative one."""
    outcome = shell(script)
    assert (outcome.ending, outcome.status) == (Ending.EXITED, status)


def test_a_child_collected_by_others_is_lost(node: Node) -> None:
    """Where other code waits for any child the status is unknown, and the outcome says so."""
    hold = f"(while [ ! -e {node.file('go')} ]; do sleep 0.01; done) & exit 0"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(shell, f"echo answer; {hold}")
        wait_until(collect_any_child, "a child to end")
        node.file("go").touch()
        outcome = running.result(timeout=PATIENCE_SECONDS)
    assert (outcome.ending, outcome.status) == (Ending.LOST, None)


def collect_any_child() -> bool:
    """Do what careless code does: collect a child that is not its own."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False  # not started yet


def test_what_was_left_is_collected_once_by_many_threads() -> None:
    """Threads that find the same dead processes to collect do not get in each other's way."""
    for _ in range(2):
        left = [os.posix_spawn("/bin/true", ("true",), {}) for _ in range(20)]
        kill.left_to_collect.extend(left)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: shell(":"), range(16)))
        wait_until(collected_by_runs, "the last of them")


def collected_by_runs() -> bool:
    """Let a run collect what is dead; tell whether nothing is left."""
    shell(":")
    return not kill.left_to_collect


# Starts


def test_a_bare_name_is_not_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is given by its path; the search path is not used."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        run(("sh", "-c", ":"))


@everywhere
@pytest.mark.parametrize(
    ("environ", "printed"),
    [({}, b""), ({b"A": b"\xff =b"}, b"A=\xff =b\n"), ({b"A": b"", b"B": b"2"}, b"A=\nB=2\n")],
)
def test_a_given_environment_is_the_whole_of_it(environ: dict[bytes, bytes], printed: bytes) -> None:
    """Whatever bytes it has."""
    assert run(("/usr/bin/env",), environ=environ).stdout == printed


def test_without_an_environment_the_program_has_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is at this moment."""
    monkeypatch.setenv("KF_OURS", "now")
    assert b"\nKF_OURS=now\n" in b"\n" + run(("/usr/bin/env",)).stdout


@everywhere
def test_nothing_is_left_open_or_waiting() -> None:
    """Neither descriptors nor threads, also of a start that fails."""
    gc.collect()  # else what other tests left may be closed meanwhile
    before, threads = sorted(os.listdir("/dev/fd")), threading.active_count()
    for _ in range(5):
        shell("cat", b"x" * 100_000)
        attached("echo said >&2")
        with pytest.raises(FileNotFoundError):
            run(("/nonexistent/program",))
        with pytest.raises(FileNotFoundError):
            run(("x",), program="/nonexistent/program", stdin=None, stderr_tail=Tail())
    wait_until(lambda: threading.active_count() <= threads, "the threads of the pipes")
    assert sorted(os.listdir("/dev/fd")) == before


# Threads


def test_runs_beside_each_other_keep_their_streams() -> None:
    """No run sees a pipe of another, so each ends by itself with its own output."""
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda number: shell("exec cat", stdin=b"%d" % number), range(100)))
    assert [outcome.stdout for outcome in outcomes] == [b"%d" % number for number in range(100)]


# Plugins of clusters: a null device or the terminal as input, and a standard error of which the end is kept


def attached(
    script: str, *, limits: Limits = Limits(timeout_seconds=20), terminal: tuple[int, int] | None = None
) -> ProcessOutcome:
    """Run a shell command under another name."""
    argv = ("name", "-c", script)
    return run(argv, program="/bin/sh", stdin=None, limits=limits, terminal=terminal, stderr_tail=Tail())


def test_a_program_can_have_another_name_and_an_empty_input() -> None:
    """And an error stream of its own."""
    done = attached('cat; echo "$0"; echo said >&2; exit 3')
    assert (done.ending, done.status, done.stdout, done.stderr) == (Ending.EXITED, 3, b"name\n", b"said\n")


@everywhere
def test_input_and_standard_error_may_be_ours(tmp_path: Path) -> None:
    """The program has both itself, and nothing of them is kept; its time is limited all the same."""
    (tmp_path / "input").write_text("given\n")
    with (tmp_path / "input").open("rb") as given, (tmp_path / "log").open("wb") as log:
        done = attached('cat; echo "$0"; echo said >&2; exit 3', terminal=(given.fileno(), log.fileno()))
    assert (done.ending, done.status, done.stdout) == (Ending.EXITED, 3, b"given\nname\n")
    assert (done.stderr, (tmp_path / "log").read_bytes()) == (b"", b"said\n")
    started = time.monotonic()
    late = attached("exec sleep 60", limits=Limits(timeout_seconds=0.2), terminal=(0, 2))
    assert (late.ending, late.status) == (Ending.TIMED_OUT, -9)
    assert time.monotonic() - started < PATIENCE_SECONDS


@pytest.mark.parametrize("is_interactive", [False, True], ids=["by itself", "interactive"])
def test_output_is_limited(*, is_interactive: bool) -> None:
    """Also for a program that reads what we read."""
    reader, writer = os.pipe()
    given = (reader, 2) if is_interactive else None
    try:
        limits = Limits(timeout_seconds=20, stdout_bytes=1000)
        for size, ending in ((1000, Ending.EXITED), (1001, Ending.STDOUT_LIMIT)):
            script = f"head -c {size} /dev/zero; exec 1>&-"
            assert attached(script, limits=limits, terminal=given).ending is ending
        endless = attached("exec cat /dev/zero", limits=limits, terminal=given)
        assert (endless.ending, endless.status) == (Ending.STDOUT_LIMIT, -9)
    finally:
        os.close(reader)
        os.close(writer)


def test_the_end_of_a_long_standard_error_is_whole_lines() -> None:
    """No part of a line is kept, and a program that goes on writing after its output is not stopped."""
    limits = Limits(timeout_seconds=20, stderr_drained_bytes=1000)
    done = attached("exec 1>&-; seq 100000 >&2", limits=limits)
    lines = done.stderr.splitlines()
    assert done.ending is Ending.EXITED
    assert lines == [b"%d" % number for number in range(100_001 - len(lines), 100_001)]
    assert 60_000 < len(done.stderr) <= limits.stderr_bytes


def test_what_a_program_writes_can_be_read_while_it_runs(tmp_path: Path) -> None:
    """By another thread, before the program ends."""
    tail = Tail()
    argv = ("/bin/sh", "-c", f"echo said >&2; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, argv, stdin=None, limits=Limits(), stderr_tail=tail)
        wait_until(lambda: tail.whole_lines == b"said\n", "the line")
        assert not running.done()
        (tmp_path / "go").touch()
        assert running.result(timeout=PATIENCE_SECONDS).stderr == b"said\n"


@everywhere
def test_a_process_that_is_left_behind_does_not_delay_the_end(tmp_path: Path) -> None:
    """It may keep the error stream of the program, as an agent does that a plugin starts, and goes on writing."""
    before = sorted(os.listdir("/dev/fd"))
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    agent = f"{wait}; echo more >&2; echo again >&2; touch {tmp_path}/lived"
    done = attached(f"echo said >&2; ({agent}) >/dev/null & echo done")
    assert (done.ending, done.stdout, done.stderr) == (Ending.EXITED, b"done\n", b"said\n")
    (tmp_path / "go").touch()
    wait_until((tmp_path / "lived").exists, "the agent to write")
    wait_until(lambda: sorted(os.listdir("/dev/fd")) == before, "the pipe to be closed")
