"""Programs that a plugin runs: bounded in time and output, and nothing of them stays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keyferry.errors import ProvideError
from keyferry.sdk import Deadline
from keyferry.sdk.process import run_program
from support.plugins import is_running, read_pids, run_script, wait_until, write_executable

LATE = 60.0
MEGABYTE = 1 << 20


def shell(script: str, *args: str) -> list[str]:
    """A shell script as a command."""
    return ["/bin/sh", "-c", script, *args]


def test_a_program_gets_its_input_and_gives_its_output() -> None:
    """Both streams, the status, and no shell between."""
    done = run_program(
        shell('cat; echo "$1" >&2; exit 3', "sh", "a b;$(id)"), deadline=Deadline(LATE), stdin=b"in"
    )
    assert (done.status, done.stdout, done.stderr) == (3, b"in", b"a b;$(id)\n")


def test_large_input_and_output_at_once_do_not_lock_up() -> None:
    """A program that writes before it reads, and one that never reads."""
    data = b"x" * (MEGABYTE - 1)
    assert run_program(["/bin/cat"], deadline=Deadline(LATE), stdin=data).stdout == data
    assert run_program(shell("exec 0<&-; echo hi"), deadline=Deadline(LATE), stdin=data).stdout == b"hi\n"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_program_that_writes_without_end_is_killed(stream: str, tmp_path: Path) -> None:
    """A megabyte is more than any answer."""
    with pytest.raises(ProvideError, match=f"'sh' wrote more than {MEGABYTE} bytes, and was killed"):
        run_program(shell(f"echo $$ >{tmp_path}/pid; yes >&{stream}"), deadline=Deadline(LATE))
    (pid,) = read_pids(tmp_path / "pid", 1)
    wait_until(lambda: not is_running(pid))


SLOW = {
    "sleeps": "sleep 60",
    "ignores-signals": "trap '' TERM INT HUP; sleep 60",
    "closes-its-output": "exec >&- 2>&-; sleep 60",
    "leaves-a-child": "sleep 60 & echo $! >>{here}/pid; exit 0",
    "drips": "while :; do echo x; sleep 0.05; done",
}


@pytest.mark.parametrize("script", SLOW.values(), ids=SLOW)
def test_past_the_deadline_the_whole_group_is_killed(script: str, tmp_path: Path) -> None:
    """The program, and what it started."""
    body = f"echo $$ >>{tmp_path}/pid; " + script.format(here=tmp_path)
    # On a busy machine a shell may need longer to begin.
    for seconds in (0.2, 1, 5, 20):
        with pytest.raises(ProvideError) as caught:
            run_program(shell(body), deadline=Deadline(seconds))
        assert str(caught.value) == "the program 'sh' did not end in time, and was killed"
        if (tmp_path / "pid").exists():
            break
    for pid in read_pids(tmp_path / "pid", 1):
        wait_until(lambda pid=pid: not is_running(pid))  # type: ignore[misc] # a default is how a lambda keeps it


def test_what_a_program_leaves_behind_is_killed_though_it_ended_well(tmp_path: Path) -> None:
    """A child that holds none of its streams does not outlive the plugin's interest in it."""
    script = f"sleep 60 >/dev/null 2>&1 </dev/null & echo $! >{tmp_path}/pid; echo done"
    assert run_program(shell(script), deadline=Deadline(LATE)).stdout == b"done\n"
    (pid,) = read_pids(tmp_path / "pid", 1)
    wait_until(lambda: not is_running(pid))


def test_a_deadline_that_has_passed_ends_a_program_at_once() -> None:
    """It is started, and has no time."""
    with pytest.raises(ProvideError, match="did not end in time"):
        run_program(["/bin/sleep", "60"], deadline=Deadline(-1))


def test_a_program_that_cannot_be_started_is_said(tmp_path: Path) -> None:
    """By its name alone; the path and the arguments are nobody's business."""
    closed = tmp_path / "closed"
    closed.write_text("x")
    text = write_executable(tmp_path / "text", b"\x7fnot a program")
    script = write_executable(tmp_path / "script", "#! /no/such/shell -e\n")
    cases = {
        str(script): (
            "the program 'script' names the interpreter '/no/such/shell' in its first line, which does not exist"
        ),
        "acme-login": "the program 'acme-login' is not installed, or not on PATH",
        str(tmp_path / "none"): "the program 'none' is not installed, or not on PATH",
        str(closed): "the program 'closed' cannot be started: permission denied",
        str(text): "the program 'text' cannot be started: exec format error",
        "/bin/sh\0": "the program 'sh\\x00' cannot be started: an argument or a variable has a null byte",
    }
    for path, words in cases.items():
        with pytest.raises(ProvideError) as caught:
            run_program([path], deadline=Deadline(LATE))
        assert str(caught.value) == words


def test_a_file_on_path_that_may_not_be_run_is_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a shell and for Go, and as for a folder of PATH that this user may not search."""
    (tmp_path / "acme-login").write_text("x")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProvideError, match="'acme-login' is not installed, or not on PATH"):
        run_program(["acme-login"], deadline=Deadline(LATE))


def test_a_program_is_looked_for_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell would."""
    write_executable(tmp_path / "acme-login", "#!/bin/sh\necho found\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert run_program(["acme-login"], deadline=Deadline(LATE)).stdout == b"found\n"


def test_a_program_shares_no_descriptor_and_no_terminal_with_the_plugin(tmp_path: Path) -> None:
    """It cannot write into the plugin's answer, nor ask the user anything."""
    script = (
        "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:4], os.getsid(0) == os.getpid())"
    )
    with (tmp_path / "open").open("w"):
        done = run_program([sys.executable, "-IS", "-c", script], deadline=Deadline(LATE))
    # The fourth is of the listing itself.
    assert done.stdout == b"[0, 1, 2, 3] True\n"


def test_a_complaint_is_the_end_of_standard_error_without_secrets() -> None:
    """For a message."""
    script = "seq 1 9 >&2; echo 'password=hunter2' >&2; exit 1"
    done = run_program(shell(script), deadline=Deadline(LATE))
    assert done.complaint == "6 | 7 | 8 | 9 | password=********"


def test_a_program_killed_by_a_signal_has_a_negative_status() -> None:
    """As everywhere in Python."""
    assert run_program(shell("kill -9 $$"), deadline=Deadline(LATE)).status == -9


def test_a_program_that_other_code_collects_is_said() -> None:
    """Its status is unknown then, and so is whether it did what it was to do."""
    script = """
import signal
from keyferry.errors import ProvideError
from keyferry.sdk import Deadline
from keyferry.sdk.process import run_program
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
try:
    run_program(["/bin/echo"], deadline=Deadline(60))
except ProvideError as error:
    print(error)
"""
    done = run_script(script)
    assert (done.stdout, done.stderr) == (
        "the program 'echo' was collected by other code of this process\n",
        "",
    )
