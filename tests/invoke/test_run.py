"""One run: its limits, its streams, its status, as a plugin of a node and as one of a cluster."""

from __future__ import annotations

import math
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keyferry._core.program import kill
from keyferry.invoke.run import Ending, Limits, ProcessOutcome, Tail, run
from support.plugins import Node, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


# A time-out that a shell needs to begin: on a busy machine the next one is tried.
ENOUGH_FOR_A_SHELL = (0.2, 1, 5, 20)


def shell(text: str, stdin: bytes = b"", limits: Limits = Limits(timeout_seconds=60)) -> ProcessOutcome:
    """Run a shell command."""
    return run(("/bin/sh", "-c", text), stdin=stdin, limits=limits)


def flood(count: int, to: str = "1") -> str:
    """A shell command that writes so many bytes."""
    return f"head -c {count} /dev/zero >&{to}"


# Output


@pytest.mark.parametrize(
    ("count", "ending"), [(0, Ending.EXITED), (100, Ending.EXITED), (101, Ending.STDOUT_LIMIT)]
)
def test_output_up_to_the_limit_is_kept(count: int, ending: Ending) -> None:
    """The limit itself is allowed, the byte after it is not."""
    outcome = shell(flood(count), limits=Limits(timeout_seconds=20, stdout_bytes=100))
    assert outcome.ending is ending
    assert len(outcome.stdout) == (count if ending is Ending.EXITED else 0)


@pytest.mark.parametrize("count", [65_536, 1_000_000])
def test_output_of_any_size_is_whole(count: int) -> None:
    """No byte is lost or doubled where reads meet."""
    outcome = shell(f"{flood(count - 2)}; printf ab")
    assert len(outcome.stdout) == count
    assert outcome.stdout.endswith(b"\0ab")


def test_output_before_a_bad_end_is_kept() -> None:
    """What was written before the deadline is there after it."""
    for seconds in ENOUGH_FOR_A_SHELL:
        outcome = shell("echo out; echo err >&2; exec sleep 60", limits=Limits(timeout_seconds=seconds))
        assert (outcome.ending, outcome.status) == (Ending.TIMED_OUT, -9)
        if outcome.stderr:
            break
    assert (outcome.stdout, outcome.stderr) == (b"out\n", b"err\n")


@pytest.mark.parametrize(
    ("count", "ending"), [(0, Ending.EXITED), (1000, Ending.EXITED), (1001, Ending.STDERR_LIMIT)]
)
def test_errors_up_to_the_limit_are_drained(count: int, ending: Ending) -> None:
    """Standard error beyond what is kept is read up to a limit of its own."""
    limits = Limits(timeout_seconds=20, stderr_bytes=10, stderr_drained_bytes=1000)
    outcome = shell(flood(count, to="2"), limits=limits)
    assert outcome.ending is ending
    assert len(outcome.stderr) == min(count, 10)


@pytest.mark.parametrize("kept", [0, 5, 64 * 1024])
def test_the_tail_of_the_errors_is_kept(kept: int) -> None:
    """Of a long log the last bytes stay, exactly as many as allowed."""
    outcome = shell("seq 50000 >&2", limits=Limits(timeout_seconds=20, stderr_bytes=kept))
    log = "".join(f"{number}\n" for number in range(1, 50_001)).encode()
    assert outcome.stderr == log[len(log) - kept :]


def test_the_tail_of_errors_in_many_pieces_is_kept() -> None:
    """How a log is cut into writes makes no difference."""
    text = 'i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done'
    outcome = shell(text, limits=Limits(timeout_seconds=20, stderr_bytes=20))
    assert outcome.stderr == b"line 1998\nline 1999\n"


def test_an_outcome_shows_no_output() -> None:
    """What a program printed does not stand in the text of the outcome."""
    outcome = shell("echo hunter2; echo hunter2 >&2")
    assert "hunter2" not in repr(outcome)


# Input


@pytest.mark.parametrize("size", [0, 65_537, 5_000_000])
def test_input_of_any_size_arrives_whole(size: int) -> None:
    """The program reads exactly what was given, then the end of the file."""
    data = (b"0123456789" * (size // 10 + 1))[:size]
    assert shell("exec cat", stdin=data, limits=Limits(stdout_bytes=size)).stdout == data


def test_input_is_read_and_output_written_at_once() -> None:
    """A slow reader that writes more than a pipe holds does not stall."""
    outcome = shell(f"{flood(300_000)}; {flood(300_000, to='2')}; exec cat", stdin=b"x" * 1_000_000)
    assert outcome.ending is Ending.EXITED
    assert len(outcome.stdout) == 1_300_000


# Time


@pytest.mark.parametrize("seconds", [math.inf, 1e15, 1e7], ids=["endless", "ages", "months"])
def test_a_timeout_longer_than_the_system_can_wait_is_taken(seconds: float) -> None:
    """A timeout that no clock reaches is as good as none."""
    outcome = shell("sleep 0.1; exec >&- 2>&-; sleep 0.1", limits=Limits(timeout_seconds=seconds))
    assert (outcome.ending, outcome.status) == (Ending.EXITED, 0)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_timeout_of_nothing_has_passed_at_once(seconds: float) -> None:
    """Without time a program is ended right after its start."""
    assert shell("exec sleep 60", limits=Limits(timeout_seconds=seconds)).ending is Ending.TIMED_OUT


# Ends


@pytest.mark.parametrize("status", [0, 1, 255])
def test_an_exit_status_is_passed_on(status: int) -> None:
    """The status is the program's own."""
    outcome = shell(f"exit {status}")
    assert (outcome.ending, outcome.status) == (Ending.EXITED, status)


@pytest.mark.parametrize("number", [9, 15, 34])
def test_a_signal_is_a_negative_status(number: int) -> None:
    """The signal that ended a program can be told from an exit."""
    outcome = shell(f"ulimit -c 0; kill -{number} $$")
    assert (outcome.ending, outcome.status) == (Ending.EXITED, -number)


def test_a_child_collected_by_others_is_lost(node: Node) -> None:
    """Where other code waits for any child the status is unknown, and the outcome says so."""
    hold = f"(while [ ! -e {node.file('go')} ]; do sleep 0.01; done) & exit 0"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(shell, f"echo answer; {hold}")
        pid, _ = wait_for_any_child()
        node.file("go").touch()
        outcome = running.result(timeout=20)
    assert pid > 0
    assert (outcome.ending, outcome.status) == (Ending.LOST, None)


def wait_for_any_child() -> tuple[int, int]:
    """Do what careless code does: collect a child that is not its own."""
    found = (0, 0)

    def collect() -> bool:
        nonlocal found
        try:
            found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False  # not started yet
        return found[0] > 0

    wait_until(collect, "a child to end")
    return found


def test_what_was_left_is_collected_once_by_many_threads() -> None:
    """Threads that find the same dead processes to collect do not get in each other's way."""
    for _ in range(10):
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


# Threads


def test_runs_beside_each_other_keep_their_streams() -> None:
    """No run sees a pipe of another, so each ends by itself with its own output."""
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda number: shell("exec cat", stdin=b"%d" % number), range(200)))
    assert [outcome.stdout for outcome in outcomes] == [b"%d" % number for number in range(200)]


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


def test_input_and_standard_error_may_be_ours(tmp_path: Path) -> None:
    """The program has both itself, and nothing of them is kept."""
    (tmp_path / "input").write_text("given\n")
    with (tmp_path / "input").open("rb") as given, (tmp_path / "log").open("wb") as log:
        done = attached("cat; echo said >&2", terminal=(given.fileno(), log.fileno()))
    assert (done.stdout, done.stderr, (tmp_path / "log").read_bytes()) == (b"given\n", b"", b"said\n")


@pytest.mark.parametrize("is_interactive", [False, True], ids=["by itself", "interactive"])
def test_limits_hold(*, is_interactive: bool) -> None:
    """In time and in output, also for a program that reads what we read."""
    reader, writer = os.pipe()
    given = (reader, 2) if is_interactive else None
    try:
        late = attached("exec sleep 30", limits=Limits(timeout_seconds=0.2), terminal=given)
        assert (late.ending, late.status) == (Ending.TIMED_OUT, -9)
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
    done = attached("exec 1>&-; seq 100000 >&2")
    lines = done.stderr.splitlines()
    assert done.ending is Ending.EXITED
    assert lines == [b"%d" % number for number in range(100_001 - len(lines), 100_001)]
    assert 60_000 < len(done.stderr) <= Limits().stderr_bytes


def test_the_standard_error_has_no_limit() -> None:
    """As in client-go, which passes its own on."""
    limits = Limits(timeout_seconds=20, stderr_drained_bytes=1000)
    assert attached("seq 100000 >&2", limits=limits).ending is Ending.EXITED


def test_what_a_program_writes_can_be_read_while_it_runs(tmp_path: Path) -> None:
    """By another thread, before the program ends."""
    tail = Tail()
    argv = ("/bin/sh", "-c", f"echo said >&2; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, argv, stdin=None, limits=Limits(), stderr_tail=tail)
        wait_until(lambda: tail.whole_lines == b"said\n", "the line")
        assert not running.done()
        (tmp_path / "go").touch()
        assert running.result(timeout=60).stderr == b"said\n"
    tail.clear()
    assert tail.whole_lines == b""


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


def test_no_descriptor_is_left_of_attached_runs() -> None:
    """Also of a start that fails."""
    before = sorted(os.listdir("/dev/fd"))
    attached("echo said >&2")
    with pytest.raises(FileNotFoundError):
        run(("x",), program="/nonexistent/program", stdin=None, stderr_tail=Tail())
    assert sorted(os.listdir("/dev/fd")) == before
