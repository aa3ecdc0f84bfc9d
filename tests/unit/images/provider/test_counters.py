"""Counts are what happened, by the kubelet's idea of an error and by ours."""

from __future__ import annotations

import threading

import pytest

from keyferry.errors import (
    KeyferryError,
    Kind,
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginProtocolError,
    PluginStartError,
    PluginTimeoutError,
)
from keyferry.images.provider.counters import BUCKETS, Counters


def test_the_buckets_are_the_kubelets() -> None:
    """The upper bounds are those of the kubelet's histogram, in seconds."""
    assert BUCKETS == (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@pytest.mark.parametrize(
    ("problem", "cause", "errors"),
    [
        (PluginExitError("p", 1), "exit", 1),
        (PluginTimeoutError("p", 60), "timeout", 1),
        (PluginNotFoundError("p", "m"), "not-found", 1),
        (PluginStartError("p", "m"), "start", 1),
        (PluginOutputError("p", "m"), "output", 1),
        (PluginProtocolError("p", "m"), "protocol", 0),
        (PluginError("p", "m"), "error", 0),
        (KeyferryError("m"), "error", 0),
    ],
)
def test_only_failed_executions_are_errors(problem: KeyferryError, cause: str, errors: int) -> None:
    """An answer that cannot be used is a failure by cause, but no execution error."""
    counters = Counters()
    counters.ran(0.1, problem, 0)
    counts = counters.read()
    assert (counts.runs, counts.execution_errors, counts.failures) == (1, errors, {cause: 1})


def test_every_run_is_observed() -> None:
    """A duration falls into the first bucket that holds it, its bound included; the rest goes to the last."""
    counters = Counters()
    for seconds in (0.0, 0.005, 0.0051, 10.0, 10.1, None):
        counters.ran(seconds, None, 0)
    counts = counters.read()
    assert counts.buckets == (3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1)
    assert counts.seconds == pytest.approx(20.1101)
    assert counts.failures == {}


def test_a_failure_before_a_run_is_no_run() -> None:
    """A missing account counts by its cause and touches nothing else."""
    counters = Counters()
    counters.failed(Kind.SERVICE_ACCOUNT)
    counters.failed(Kind.SERVICE_ACCOUNT)
    counts = counters.read()
    assert (counts.runs, counts.execution_errors, counts.failures) == (0, 0, {"service-account": 2})


def test_a_reading_does_not_change_afterwards() -> None:
    """What was read is a moment's state, not a view."""
    counters = Counters()
    before = counters.read()
    counters.ran(1, PluginExitError("p", 1), 0)
    counters.hit()
    assert (before.runs, before.hits, before.failures, sum(before.buckets)) == (0, 0, {}, 0)


def test_no_count_is_lost_between_threads() -> None:
    """Eight threads count together without losing one."""
    counters = Counters()

    def count() -> None:
        for _ in range(2_000):
            counters.hit()
            counters.shared()
            counters.shared()
            counters.ran(0.1, None, 0)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = counters.read()
    assert (counts.hits, counts.shared, counts.runs) == (16_000, 32_000, 16_000)


def test_the_last_run_is_known_and_since_when_runs_end_like_it() -> None:
    """The first failure in a row counts, and the first run after it that did not fail."""
    counters, found = Counters(), []
    problem = PluginExitError("p", 1)
    assert (counters.read().last_run_ns, counters.read().streak_ns) == (None, None)
    for at_ns, error in enumerate((problem, problem, None, None, problem)):
        counters.ran(0.1, error, at_ns)
        counts = counters.read()
        found.append((counts.last_run_ns, counts.has_last_failed, counts.streak_ns))
    assert found == [(0, True, 0), (1, True, 0), (2, False, 2), (3, False, 2), (4, True, 4)]
