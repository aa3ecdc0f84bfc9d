"""What is remembered of a provider's runs, and the line of a plugin's message that people are shown first."""

from __future__ import annotations

import pytest

from keyferry.errors import PluginExitError, PluginNotFoundError, PluginTimeoutError, ServiceAccountError
from keyferry.images.lookup import Providers
from keyferry.images.provider.provider import Provider
from keyferry.images.provider.state import said_first
from support.scripted import Clock, Scripted, configured, response


def one() -> tuple[Provider, Providers, Scripted, Clock]:
    clock = Clock()
    plugin = Scripted(response(cache_seconds=0))
    provider = Provider(configured(), plugin, clock=clock)
    return provider, Providers([provider], clock=clock), plugin, clock


def test_the_last_twenty_runs_are_remembered_in_their_order() -> None:
    provider, providers, plugin, clock = one()
    for number in range(25):
        plugin.answer = PluginExitError("plugin", 1) if number % 3 == 0 else response(cache_seconds=0)
        providers.lookup("reg.io/app")
        clock.step(1)
    recent = provider.counters.read().recent
    assert [each.has_failed for each in recent] == [number % 3 == 0 for number in range(5, 25)]
    assert recent[-1].at_ns - recent[0].at_ns == 19 * 1_000_000_000


def test_failures_are_forgotten_after_an_hour() -> None:
    provider, providers, plugin, clock = one()
    plugin.answer = PluginExitError("plugin", 1)
    for _ in range(3):
        providers.lookup("reg.io/app")
        clock.step(20 * 60)
    assert provider.failed_in_the_last_hour() == 2
    providers.lookup("reg.io/app")
    providers.lookup("reg.io/app")
    assert provider.failed_in_the_last_hour() == 4
    clock.step(3600)
    assert provider.failed_in_the_last_hour() == 0
    assert sum(provider.counters.read().failures.values()) == 5


def test_a_renewal_is_a_run_that_no_lookup_asked_for() -> None:
    provider, providers, _, _ = one()
    providers.lookup("reg.io/app")
    provider.refresh("reg.io/app")
    counts = provider.counters.read()
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
