"""What is counted and remembered of a provider's runs, and the line of a plugin's message that people see first."""

from __future__ import annotations

import pytest

from keyferry import Providers
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.errors import (
    PluginError,
    PluginExitError,
    PluginNotFoundError,
    PluginOutputError,
    PluginProtocolError,
    PluginStartError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.images.provider.counters import Counts
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.state import said_first
from support.scripted import Clock, Scripted, configured, provider, response

FAILED = PluginExitError("plugin", 1)


class World:
    """One provider whose answers are not cached."""

    def __init__(self) -> None:
        self.clock = Clock(0)
        self.plugin = Scripted(response(cache_seconds=0))
        self.provider = provider(self.plugin, self.clock)

    def run(self, error: PluginError | None = None) -> Counts:
        """Run the plugin, and return the counts."""
        self.plugin.answer = error or response(cache_seconds=0)
        Providers([self.provider], clock=self.clock).lookup("reg.io/app")
        return self.provider.counters.read()


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
    ],
)
def test_only_failed_executions_are_errors(problem: PluginError, cause: str, errors: int) -> None:
    """An answer that cannot be used is a failure by cause, but no execution error."""
    counts = World().run(problem)
    assert (counts.runs, counts.execution_errors, counts.failures) == (1, errors, {cause: 1})


def test_a_duration_counts_in_the_first_bucket_that_holds_it() -> None:
    """Its bound included; what is longer than all of them goes to the last."""
    seconds = iter((0.0, 0.005, 0.0051, 10.0, 10.1))

    def run(
        _: CredentialProviderRequest, __: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        return response(cache_seconds=0), next(seconds)

    asked = Provider(configured(), run)
    for _ in range(5):
        asked.provide("reg.io/app")
    counts = asked.counters.read()
    assert counts.buckets == (2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1)
    assert counts.seconds == pytest.approx(20.1101)


def test_the_last_run_is_known_and_since_when_runs_end_like_it() -> None:
    """The first failure in a row counts, and the first run after it that did not fail."""
    world, found = World(), []
    before = world.provider.counters.read()
    for error in (FAILED, FAILED, None, None, FAILED):
        counts = world.run(error)
        found.append((counts.last_run_ns, counts.has_last_failed, counts.streak_ns))
        world.clock.now += 1
    assert found == [(0, True, 0), (1, True, 0), (2, False, 2), (3, False, 2), (4, True, 4)]
    assert (before.runs, before.last_run_ns, before.streak_ns) == (0, None, None)


def test_the_last_twenty_runs_are_remembered_in_their_order() -> None:
    world = World()
    for number in range(25):
        counts = world.run(FAILED if number % 3 == 0 else None)
        world.clock.step(1)
    assert [each.has_failed for each in counts.recent] == [number % 3 == 0 for number in range(5, 25)]
    assert counts.recent[-1].at_ns - counts.recent[0].at_ns == 19 * 1_000_000_000


def test_failures_are_forgotten_after_an_hour() -> None:
    world = World()
    for _ in range(3):
        world.run(FAILED)
        world.clock.step(20 * 60)
    assert world.provider.failed_in_the_last_hour() == 2
    world.run(FAILED)
    counts = world.run(FAILED)
    assert world.provider.failed_in_the_last_hour() == 4
    world.clock.step(3600)
    assert world.provider.failed_in_the_last_hour() == 0
    assert sum(counts.failures.values()) == 5


def test_a_renewal_is_a_run_that_no_lookup_asked_for() -> None:
    world = World()
    world.run()
    world.provider.refresh("reg.io/app")
    counts = world.provider.counters.read()
    assert (counts.runs, counts.renewals) == (2, 1)


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ("", ""),
        ("cannot reach the token server\nretrying", "cannot reach the token server"),
        ("Traceback (most recent call last):\n  File x\nOSError: no route", "OSError: no route"),
    ],
)
def test_the_first_line_that_a_plugin_printed_says_why(said: str, first: str) -> None:
    assert said_first(PluginExitError("plugin", 1, "", said)) == first
    assert said_first(PluginTimeoutError("plugin", 60, "", said)) == first


def test_a_failure_without_a_run_has_no_such_line() -> None:
    assert not said_first(PluginNotFoundError("plugin", "the executable is missing"))
    assert not said_first(ServiceAccountError("the token of ns/name is expired"))
