"""A run under watch: what it answers, uses, starts and leaves behind."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

import pytest

from keyferry.invoke.run import Ending, Limits
from keyferry.kit.lab.launch import Launch, Run, launch
from support.plugins import PATIENCE_SECONDS, is_running, wait_until

ENVIRON = {"PATH": os.environ["PATH"]}
LIMITS = Limits(timeout_seconds=PATIENCE_SECONDS)


def shell(script: str, stdin: bytes | None = b"", **fields: object) -> Run:
    """Run a shell script under watch."""
    fields = {"limits": LIMITS, **fields}
    return launch(Launch(argv=("/bin/sh", "-c", script), environ=ENVIRON, stdin=stdin, **fields))  # type: ignore[arg-type] # by name


def test_input_and_output_and_status_go_through() -> None:
    """A run gets its input and gives its output, errors and status."""
    run = shell("cat; echo oops >&2; exit 3", b"x" * 200_000)
    assert (run.outcome.status, run.outcome.stderr) == (3, b"oops\n")
    assert run.outcome.stdout == b"x" * 200_000
    assert run.left_behind == ()


def test_a_signal_is_a_negative_status() -> None:
    """As everywhere in Python."""
    assert shell("kill -SEGV $$").outcome.status == -11


def test_time_and_floods_are_bounded() -> None:
    """What does not end, or does not stop to write, is killed."""
    late = shell("sleep 60", limits=Limits(timeout_seconds=0.2))
    assert late.outcome.ending is Ending.TIMED_OUT
    assert (
        shell("yes", limits=Limits(timeout_seconds=PATIENCE_SECONDS, stdout_bytes=100_000)).outcome.ending
        is Ending.STDOUT_LIMIT
    )
    loud = Limits(timeout_seconds=PATIENCE_SECONDS, stderr_drained_bytes=100_000)
    assert shell("yes >&2", limits=loud).outcome.ending is Ending.STDERR_LIMIT


def test_no_input_is_an_empty_device() -> None:
    """A cluster plugin that reads finds nothing, and does not wait."""
    assert shell("cat; readlink /proc/self/fd/0", None).outcome.stdout == b"/dev/null\n"


@pytest.mark.parametrize(("script", "read"), [("true", False), ("read -r line", True), ("cat", True)])
def test_reading_watched_input_is_noticed(script: str, *, read: bool) -> None:
    """It can be told afterwards whether anybody read it."""
    assert shell(script, b"x\n", is_input_watched=True).was_input_read is read


def test_the_working_directory_can_be_chosen() -> None:
    """And the program is still found and run there."""
    assert shell("pwd", cwd="/").outcome.stdout == b"/\n"


def test_without_a_reader_a_write_fails() -> None:
    """The program is told, as by any closed pipe: by a signal, or by an error where it ignores that."""
    script = "trap '' PIPE; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; echo hello || exit 42; done"
    assert shell(script, has_reader=False).outcome.status == 42
    heard = shell(script).outcome
    assert (heard.status, heard.stdout) == (0, b"hello\n" * 9)


def test_command_lines_are_seen_below_the_program(tmp_path: Path) -> None:
    """The arguments of a child are noted while it runs."""
    stop = tmp_path / "stop"
    run = shell(f"sh -c 'sleep 0.5; : >{stop}' sh --password marked-secret; true", is_sampled=True)
    assert any(b"marked-secret" in line for line in run.command_lines)
    assert not shell("sh -c 'sleep 0.1' sh marked-secret; true").command_lines


def test_the_command_line_of_a_program_that_ends_at_once_is_seen() -> None:
    """It waits for its input, which it gets after that."""
    for _ in range(20):
        run = shell("read -r line; exit 0", b"x\n", is_sampled=True)
        assert b"/bin/sh\0-c\0read -r line; exit 0\0" in run.command_lines


def test_a_child_that_holds_the_output_does_not_hold_us(tmp_path: Path) -> None:
    """It is noted and ended, long before its own end."""
    pid_file = tmp_path / "pid"
    started = time.monotonic()
    run = shell(f"sleep 300 & echo $! >{pid_file}; echo done")
    assert time.monotonic() - started < 200
    assert run.held_output
    assert run.outcome.stdout == b"done\n"
    assert [process.name for process in run.left_behind or ()] == ["sleep"]
    pid = int(pid_file.read_text())
    wait_until(lambda: not is_running(pid), "the end of the child")


def test_a_child_that_leaves_the_session_is_found_and_ended(tmp_path: Path) -> None:
    """The mark in its environment gives it away."""
    pid_file = tmp_path / "pid"
    run = shell(
        f"setsid sh -c 'echo $$ >{pid_file}; exec sleep 300' </dev/null >/dev/null 2>&1 & "
        f"while [ ! -s {pid_file} ]; do sleep 0.01; done"
    )
    assert len(run.left_behind or ()) == 1
    assert not run.held_output
    pid = int(pid_file.read_text())
    wait_until(lambda: not is_running(pid), "the end of the daemon")


def test_a_child_that_ends_by_itself_is_nothing_left_behind() -> None:
    """The last of a pipeline may end a moment after its shell."""
    assert shell("(sleep 0.1) </dev/null >/dev/null 2>&1 & true").left_behind == ()


def test_memory_is_measured() -> None:
    """What a program holds beyond our own size is seen."""
    import resource

    # More than the tests themselves have ever had: a new process begins with the mark of its parent.
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 100 * 1024 * 1024
    script = f"data = b'x' * {size}; print(len(data))"
    run = launch(
        Launch(argv=(sys.executable, "-IS", "-c", script), environ=ENVIRON, stdin=b"", limits=LIMITS)
    )
    assert run.outcome.stdout == b"%d\n" % size
    assert (run.peak_bytes or 0) >= size


def test_a_program_that_is_not_there_raises() -> None:
    """As with every other way to start one."""
    with pytest.raises(FileNotFoundError):
        launch(Launch(argv=("/nonexistent",), environ=ENVIRON))


def test_no_descriptor_is_left_open() -> None:
    """However a run ends, its pipes are closed."""
    shell("true")
    gc.collect()  # what other tests have left behind is not closed in between
    before = len(os.listdir("/proc/self/fd"))
    for script in ("true", "cat", "exit 1", "sleep 60"):
        shell(script, limits=Limits(timeout_seconds=0.5))
        shell(script, b"x\n", is_input_watched=True, limits=Limits(timeout_seconds=0.5))
        shell(script, None, has_reader=False, limits=Limits(timeout_seconds=0.5))
    with pytest.raises(FileNotFoundError):
        launch(Launch(argv=("/nonexistent",), environ=ENVIRON))
    assert len(os.listdir("/proc/self/fd")) == before
