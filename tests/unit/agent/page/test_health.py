"""All is well, or what is not, with a cure and since when."""

from keyferry.agent.page.health import judge_health
from keyferry.agent.page.model import ModelBuilder
from keyferry.agent.page.snapshot import PageSnapshot
from keyferry.agent.reload import ReloadOutcome
from keyferry.errors import PluginExitError
from keyferry.images.lookup import Providers
from keyferry.images.provider.provider import Provider
from keyferry.page.model import Health
from support.page_snapshots import NOW, STARTED, take
from support.scripted import Clock, Scripted, configured, response

REFUSED = tuple(ReloadOutcome(STARTED + at, False, ("broken",)) for at in (10, 20))


def world(plugin: Scripted) -> tuple[Clock, Providers]:
    clock = Clock()
    return clock, Providers([Provider(configured(), plugin, clock=clock)], clock=clock)


def judge(snapshot: PageSnapshot) -> Health:
    return judge_health(snapshot, ModelBuilder().build(snapshot).providers)


def health(*reloads: ReloadOutcome, is_taken_over: bool = False) -> Health:
    clock, providers = world(Scripted(response()))
    first = ReloadOutcome(STARTED, is_applied=True)
    taken = take(providers, clock, reloads=(first, *reloads), is_taken_over=is_taken_over)
    return judge(taken)


def test_all_is_well_since_the_start() -> None:
    assert health() == Health(is_well=True, headline="All is well", since=STARTED)


def test_a_refused_config_is_not_well_since_the_first_refusal() -> None:
    found = health(*REFUSED)
    [problem] = found.problems
    assert (found.is_well, found.headline, found.since) == (False, "1 thing is not well", STARTED + 10)
    assert (problem.link, problem.cure) == ("/reloads", "keyferry lint /etc/providers.yaml")


def test_a_repaired_config_is_well_since_then() -> None:
    assert health(*REFUSED, ReloadOutcome(STARTED + 30, is_applied=True)).since == STARTED + 30


def test_a_provider_that_fails_is_not_well_until_it_runs_again() -> None:
    plugin = Scripted(PluginExitError("plugin", 1))
    clock, providers = world(plugin)
    providers.lookup("reg.io/app")
    clock.step(7)
    found = judge(take(providers, clock))
    assert (found.problems[0].link, found.since) == ("/providers/plugin", NOW - 7)
    assert found.problems[0].cure.startswith("keyferry plugin trace")
    plugin.answer = response()
    providers.lookup("reg.io/app")
    after = judge(take(providers, clock))
    last_run = providers.providers[0].counters.read().last_run_at
    assert (after.is_well, after.since) == (True, last_run)


def test_several_things_are_counted() -> None:
    found = health(*REFUSED, is_taken_over=True)
    assert (found.headline, len(found.problems)) == ("2 things are not well", 2)
