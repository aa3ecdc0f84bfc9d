"""A run on the caller's own streams."""

import os
import sys
from pathlib import Path

import pytest

from keyferry.invoke.attached import run_attached
from keyferry.invoke.process import Ending, Limits, ProcessOutcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

SHELL = "/bin/sh"


def run(argv: tuple[str, ...], **settings: object) -> ProcessOutcome:
    return run_attached(argv, environ=os.environb, **settings)  # type: ignore[arg-type] # handed through


def test_output_and_status_come_back(tmp_path: Path) -> None:
    """The program sees the name it was called by, an empty input, and an error stream of our choice."""
    with (tmp_path / "log").open("wb") as log:
        argv = ("name", "-c", 'cat; echo "$0"; echo said >&2; exit 3')
        done = run(argv, program=SHELL, stderr_fd=log.fileno())
    assert (done.ending, done.status, done.stdout, done.stderr) == (Ending.EXITED, 3, b"name\n", b"")
    assert (tmp_path / "log").read_bytes() == b"said\n"


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


def test_a_closed_error_stream_is_nowhere() -> None:
    """A daemon without one can run a plugin that complains."""
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    done = run(("sh", "-c", "echo said >&2; echo done"), program=SHELL, stderr_fd=writer)
    assert (done.status, done.stdout) == (0, b"done\n")
