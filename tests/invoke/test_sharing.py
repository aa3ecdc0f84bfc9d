"""Runs in progress and those who wait for them."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from keyferry.invoke.sharing import SharedRun, SharedRuns


def test_a_finished_run_gives_its_answer_at_once() -> None:
    """Who comes after the end gets the answer too, as often as asked."""
    run: SharedRun[str] = SharedRun()
    run.finish("answer")
    assert [run.wait(), run.wait()] == ["answer", "answer"]


@pytest.mark.parametrize("value", ["answer", None], ids=["with an answer", "without one"])
def test_everyone_who_waits_gets_the_answer(value: str | None) -> None:
    """One end ends every wait."""
    run: SharedRun[str] = SharedRun()
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(run.wait) for _ in range(20)]
        assert not any(future.done() for future in waiting)
        run.finish(value)
        assert [future.result(timeout=20) for future in waiting] == [value] * 20


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01])
def test_a_wait_ends_at_its_time(seconds: float) -> None:
    """Who has no time left gives up, and takes the answer from nobody."""
    run: SharedRun[str] = SharedRun()
    with pytest.raises(TimeoutError):
        run.wait(seconds)
    run.finish("answer")
    assert [run.wait(seconds), run.wait(math.inf), run.wait()] == ["answer"] * 3


def test_a_run_finishes_once() -> None:
    """A second end is a mistake of the caller's."""
    run: SharedRun[str] = SharedRun()
    run.finish("first")
    with pytest.raises(RuntimeError):
        run.finish("second")


def test_a_run_is_found_by_each_of_its_keys() -> None:
    """A run in progress is known by all keys it was started with, and by no other."""
    runs: SharedRuns[str] = SharedRuns()
    run = runs.start(("own", "wide"))
    assert runs.find("own") is run
    assert runs.find("wide") is run
    assert runs.find("other") is None


def test_a_key_stays_with_the_run_that_took_it_first() -> None:
    """A second run takes only the keys that are free."""
    runs: SharedRuns[str] = SharedRuns()
    first = runs.start(("a", "wide"))
    second = runs.start(("b", "wide"))
    assert runs.find("wide") is first
    assert runs.find("b") is second


def test_a_removed_run_is_forgotten() -> None:
    """After the end a call is found by none of its keys."""
    runs: SharedRuns[str] = SharedRuns()
    keys = ("own", "wide")
    run = runs.start(keys)
    runs.remove(keys, run)
    assert runs.find("own") is None
    assert runs.find("wide") is None


def test_a_removed_run_leaves_the_keys_of_others() -> None:
    """The end of one call does not hide another that took the key first."""
    runs: SharedRuns[str] = SharedRuns()
    first = runs.start(("a", "wide"))
    second = runs.start(("b", "wide"))
    runs.remove(("b", "wide"), second)
    assert runs.find("wide") is first
    assert runs.find("b") is None
