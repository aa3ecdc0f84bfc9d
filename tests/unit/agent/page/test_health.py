"""All is well, or what is not, with a cure and since when."""

from __future__ import annotations

from keyferry.agent.page.model import ModelBuilder, PageSnapshot, judge_health
from keyferry.agent.state import ReloadOutcome
from keyferry.errors import PluginExitError
from keyferry.images.lookup import Providers
from keyferry.images.provider.provider import Provider
from keyferry.page.model import Health
from support.page_snapshots import NOW, STARTED, take
from support.scripted import Clock, Scripted, configured, response

REFUSED = tuple(
    ReloadOutcome(at=STARTED + at, is_applied=False, since=STARTED + 10, problems=("broken",))
    for at in (10, 20)
)


def world(plugin: Scripted) -> tuple[Clock, Providers]:
    clock = Clock()
    return clock, Providers([Provider(configured(), plugin, clock=clock)], clock=clock)


def judge(snapshot: PageSnapshot) -> Health:
    return judge_health(snapshot, ModelBuilder().build(snapshot).providers)


def health(*reloads: ReloadOutcome, taken_over_at: float | None = None) -> Health:
    clock, providers = world(Scripted(response()))
    first = ReloadOutcome(at=STARTED, is_applied=True, since=STARTED)
    return judge(take(providers, clock, reloads=(first, *reloads), taken_over_at=taken_over_at))


def test_all_is_well_since_the_start() -> None:
    assert health() == Health(is_well=True, headline="All is well", since=STARTED)


def test_without_a_provider_there_is_nothing_that_could_be_well() -> None:
    clock = Clock()
    found = judge(take(Providers([], clock=clock), clock))
    assert found == Health(is_well=False, headline="No provider is configured", since=STARTED)
    assert found.is_idle
    assert not health(*REFUSED).is_idle


def test_a_refused_config_is_not_well_since_the_first_refusal() -> None:
    found = health(*REFUSED)
    [problem] = found.problems
    assert (found.is_well, found.headline, found.since) == (False, "1 problem", STARTED + 10)
    assert (problem.link, problem.cure) == ("/reloads", "keyferry lint /etc/providers.yaml")


def test_a_repaired_config_is_well_since_then() -> None:
    """And not since the last load, of which there may have been more."""
    later = (ReloadOutcome(at=STARTED + at, is_applied=True, since=STARTED + 30) for at in (30, 40))
    assert health(*REFUSED, *later).since == STARTED + 30


def test_a_provider_that_fails_is_not_well_until_it_runs_again() -> None:
    """Since the first failure in a row; then it is well since the first run that did not fail."""
    plugin = Scripted(PluginExitError("plugin", 1))
    clock, providers = world(plugin)
    for _ in range(3):
        providers.lookup("reg.io/app")
        clock.step(7)
    found = judge(take(providers, clock))
    assert (found.problems[0].link, found.since) == ("/providers/plugin", NOW - 21)
    assert found.problems[0].cure.startswith("keyferry plugin trace")
    plugin.answer = response(cache_seconds=0)
    for _ in range(3):
        providers.lookup("reg.io/app")
        clock.step(5)
    after = judge(take(providers, clock))
    assert (after.is_well, after.since) == (True, NOW - 15)
    plugin.answer = PluginExitError("plugin", 1)
    providers.lookup("reg.io/app")
    assert judge(take(providers, clock)).since == NOW


def test_a_provider_that_has_never_failed_changes_nothing() -> None:
    clock, providers = world(Scripted(response()))
    providers.lookup("reg.io/app")
    assert judge(take(providers, clock)).since == STARTED


def test_a_process_without_its_socket_is_not_well_since_then() -> None:
    assert health(taken_over_at=STARTED + 9).since == STARTED + 9


def test_several_things_are_counted() -> None:
    found = health(*REFUSED, taken_over_at=NOW)
    assert (found.headline, len(found.problems)) == ("2 problems", 2)
    assert found.since == STARTED + 10
