"""A run on the caller's own streams, with and without posix_spawn."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry.invoke import attached
from keyferry.invoke.attached import run_attached
from keyferry.invoke.process import Ending, Limits, Outcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

SHELL = "/bin/sh"
Run = Callable[..., Outcome]


def run_elsewhere(
    argv: tuple[str, ...],
    *,
    program: str | int,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    stdin_fd: int | None = None,
    stderr_fd: int = 2,
) -> Outcome:
    return attached._run_elsewhere(argv, program, os.environb, limits, stdin_fd, stderr_fd)


def run_here(argv: tuple[str, ...], **settings: object) -> Outcome:
    return run_attached(argv, environ=os.environb, **settings)  # type: ignore[arg-type] # handed through


@pytest.fixture(params=[run_here, run_elsewhere], ids=["posix_spawn", "subprocess"])
def run(request: pytest.FixtureRequest) -> Run:
    chosen: Run = request.param
    return chosen


def test_output_and_status_come_back(run: Run, tmp_path: Path) -> None:
    """The program sees the name it was called by, an empty input, and an error stream of our choice."""
    with (tmp_path / "log").open("wb") as log:
        argv = ("name", "-c", 'cat; echo "$0"; echo said >&2; exit 3')
        done = run(argv, program=SHELL, stderr_fd=log.fileno())
    assert (done.ending, done.status, done.stdout, done.stderr) == (Ending.EXITED, 3, b"name\n", b"")
    assert (tmp_path / "log").read_bytes() == b"said\n"


def test_input_may_be_ours(run: Run, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("given\n")
    with (tmp_path / "input").open("rb") as given:
        done = run(("sh", "-c", "cat"), program=SHELL, stdin_fd=given.fileno())
    assert done.stdout == b"given\n"


def test_large_output_is_whole(run: Run) -> None:
    done = run(("sh", "-c", "head -c 1000000 /dev/zero; printf ab"), program=SHELL)
    assert (len(done.stdout), done.stdout[-3:]) == (1_000_002, b"\0ab")


def test_limits_hold(run: Run) -> None:
    assert run(("sh", "-c", "sleep 30"), program=SHELL, limits=Limits(0.2)).ending is Ending.TIMED_OUT
    flood = run(("sh", "-c", "head -c 2000 /dev/zero"), program=SHELL, limits=Limits(20, stdout_bytes=1000))
    assert flood.ending is Ending.STDOUT_LIMIT


def test_a_missing_program_raises_and_leaves_nothing_open(run: Run) -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(FileNotFoundError):
        run(("x",), program="/nonexistent/program")
    assert len(os.listdir("/dev/fd")) == before


def test_an_open_file_needs_posix_spawn() -> None:
    with pytest.raises(OSError, match="not implemented"):
        run_elsewhere(("x",), program=0)
