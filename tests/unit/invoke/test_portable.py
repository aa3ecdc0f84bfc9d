"""The run for systems without posix_spawn keeps the same promises."""

from __future__ import annotations

import os
import time

import pytest

from keyferry.invoke.portable import run_portable
from keyferry.invoke.process import Ending, Limits, Outcome

SHELL = "/bin/sh"


def run(script: str, stdin: bytes = b"", limits: Limits = Limits()) -> Outcome:  # noqa: B008 - frozen
    return run_portable((SHELL, "-c", script), stdin, os.environb, limits)


def test_output_and_status_come_back() -> None:
    done = run("cat; echo oops >&2; exit 3", b"hello")
    assert (done.ending, done.status, done.stdout, done.stderr) == (Ending.EXITED, 3, b"hello", b"oops\n")


def test_a_large_input_that_is_never_read_is_no_error() -> None:
    done = run("exec <&-; echo done", b"x" * 1_000_000)
    assert (done.ending, done.stdout) == (Ending.EXITED, b"done\n")


def test_the_deadline_ends_a_run_whose_child_holds_the_output() -> None:
    started = time.monotonic()
    done = run("sleep 30 & sleep 30", limits=Limits(timeout_seconds=0.3))
    assert done.ending is Ending.TIMED_OUT
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("script", "ending"),
    [("yes", Ending.STDOUT_LIMIT), ("yes >&2", Ending.STDERR_LIMIT)],
    ids=["stdout", "stderr"],
)
def test_a_flood_is_cut_off(script: str, ending: Ending) -> None:
    assert run(script, limits=Limits(stdout_bytes=100_000, stderr_drained_bytes=200_000)).ending is ending


def test_a_missing_program_raises() -> None:
    with pytest.raises(FileNotFoundError):
        run_portable(("/nonexistent/program",), b"", os.environb, Limits())
