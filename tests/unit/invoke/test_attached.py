"""A run on the caller's own streams."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from keyferry.invoke.attached import run_attached
from keyferry.invoke.run import Ending, Limits, ProcessOutcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

SHELL = "/bin/sh"


def run(argv: tuple[str, ...], **settings: object) -> ProcessOutcome:
    return run_attached(argv, environ=os.environb, **settings)  # type: ignore[arg-type] # handed through


def test_output_and_status_come_back() -> None:
    """The program sees the name it was called by, an empty input, and an error stream of its own."""
    done = run(("name", "-c", 'cat; echo "$0"; echo said >&2; exit 3'), program=SHELL)
    assert (done.ending, done.status, done.stdout, done.stderr) == (Ending.EXITED, 3, b"name\n", b"said\n")


def test_input_may_be_ours(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("given\n")
    with (tmp_path / "input").open("rb") as given:
        done = run(("sh", "-c", "cat"), program=SHELL, stdin_fd=given.fileno())
    assert done.stdout == b"given\n"


def test_large_output_is_whole() -> None:
    done = run(("sh", "-c", "head -c 1000000 /dev/zero; printf ab"), program=SHELL)
    assert (len(done.stdout), done.stdout[-3:]) == (1_000_002, b"\0ab")


@pytest.mark.parametrize("is_interactive", [False, True], ids=["by itself", "interactive"])
def test_limits_hold(*, is_interactive: bool) -> None:
    """In time and in output, also for a program that reads what we read."""
    reader, writer = os.pipe()
    given = reader if is_interactive else None
    try:
        late = run(("sh", "-c", "sleep 30"), program=SHELL, limits=Limits(0.2), stdin_fd=given)
        assert (late.ending, late.status) == (Ending.TIMED_OUT, -9)
        limits = Limits(20, stdout_bytes=1000)
        for size, ending in ((1000, Ending.EXITED), (1001, Ending.STDOUT_LIMIT)):
            script = f"head -c {size} /dev/zero; exec 1>&-"
            assert run(("sh", "-c", script), program=SHELL, limits=limits, stdin_fd=given).ending is ending
        endless = run(("cat", "/dev/zero"), program="/bin/cat", limits=limits, stdin_fd=given)
        assert (endless.ending, endless.status) == (Ending.STDOUT_LIMIT, -9)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_missing_program_raises_and_leaves_nothing_open() -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(FileNotFoundError):
        run(("x",), program="/nonexistent/program")
    assert len(os.listdir("/dev/fd")) == before


def test_a_process_that_is_left_behind_does_not_delay_the_end() -> None:
    """It may keep the error stream of the program, as an agent does that a plugin starts."""
    started = time.monotonic()
    done = run(("sh", "-c", "echo said >&2; sleep 8 >/dev/null & echo done"), program=SHELL)
    assert (done.stdout, done.stderr) == (b"done\n", b"said\n")
    assert time.monotonic() - started < 7
