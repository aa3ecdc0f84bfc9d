"""The model has what the agent has: lives and their windows, states of providers, decisions; and no secret."""

from __future__ import annotations

from keyferry._core.values import replace
from keyferry.agent.page.model import ModelBuilder
from keyferry.agent.refresh import PlannedRefresh
from keyferry.errors import PluginExitError, PluginNotFoundError
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import Relayed
from keyferry.images.provider.cache import CacheLimits
from keyferry.images.provider.provider import Provider
from keyferry.page.model import LatencyBucket, ProviderState
from support.page_snapshots import NOW, ask, take
from support.scripted import SECOND, Clock, Scripted, attributes, configured, response

SECRET = "secret-word"


def world(clock: Clock, plugin: Scripted, **fields: object) -> Providers:
    return Providers([Provider(configured(**fields), plugin, clock=clock)], clock=clock)  # type: ignore[arg-type] # as configured


def test_a_life_has_its_window_and_its_planned_instant() -> None:
    clock = Clock()
    providers = world(clock, Scripted(response(SECRET, cache_seconds=1000)))
    providers.lookup("reg.io/app")
    got_ns = clock.now
    clock.step(100)
    refresh = PlannedRefresh(provider="plugin", base="reg.io", image="reg.io/app")
    model = ModelBuilder().build(take(providers, clock, planned=((got_ns + 700 * SECOND, refresh, 2),)))
    [life] = model.lives
    assert (life.provider, life.scope, life.account, life.credentials) == ("plugin", "reg.io", "", 1)
    assert (life.got, life.expires) == (NOW - 100, NOW + 900)
    assert (life.refresh_from, life.refresh_until, life.refresh_at) == (NOW + 400, NOW + 800, NOW + 600)
    assert (life.failures, model.providers[0].next_refresh) == (2, NOW + 600)
    assert SECRET not in repr(model)


def test_an_answer_of_a_service_account_is_not_renewed() -> None:
    """Its account is what the caller named."""
    clock = Clock()
    providers = world(
        clock, Scripted(response(cache_seconds=1000)), token_attributes=attributes(require=False)
    )
    pod = Relayed(
        token="t", key=b"k", until_ns=1 << 60, ref=ServiceAccountRef(namespace="ns", name="builder", uid="u")
    )
    providers.lookup("reg.io/app", pod=pod)
    refresh = PlannedRefresh(provider="plugin", base="reg.io", image="reg.io/app")
    model = ModelBuilder().build(take(providers, clock, planned=((clock.now + SECOND, refresh, 3),)))
    [life] = model.lives
    assert (life.account, life.refresh_at, life.failures) == ("ns/builder", None, 0)
    assert model.accounts == ("ns/builder",)


def test_a_global_answer_is_for_every_image() -> None:
    clock = Clock()
    providers = world(clock, Scripted(response(cache_key_type="Global", cache_seconds=10)))
    providers.lookup("reg.io/app")
    [life] = ModelBuilder().build(take(providers, clock)).lives
    assert (life.scope, life.refresh_from) == ("every image", None)


def test_the_state_of_a_provider() -> None:
    """Unused, well, failing while its answer is still valid, failing, and well again."""
    clock = Clock()
    plugin = Scripted(response(cache_seconds=100))
    providers = world(clock, plugin)

    def state() -> ProviderState:
        return ModelBuilder().build(take(providers, clock)).providers[0].state

    found = [state()]
    providers.lookup("reg.io/app")
    found.append(state())
    plugin.answer = PluginExitError("plugin", 1, "", "printed-this")
    providers.providers[0].refresh("reg.io/app")
    found.append(state())
    clock.step(101)
    found.append(state())
    plugin.answer = response(cache_seconds=100)
    providers.lookup("reg.io/app")
    found.append(state())
    assert found == [
        ProviderState.UNUSED,
        ProviderState.WELL,
        ProviderState.RENEWAL_FAILS,
        ProviderState.FAILING,
        ProviderState.WELL,
    ]


def test_a_provider_whose_last_answer_has_nothing_for_the_image_is_marked() -> None:
    """Until it has answered with a credential; a failure counts for more."""
    clock = Clock()
    plugin = Scripted(response(keys=("other.io",), cache_seconds=1))
    providers = world(clock, plugin)
    found = []
    for answer in (
        response(keys=("other.io",), cache_seconds=1),
        response(keys=(), cache_seconds=1),
        PluginExitError("plugin", 1),
        response(keys=("other.io",), cache_seconds=1),
        response(cache_seconds=1),
    ):
        plugin.answer = answer
        providers.lookup("reg.io/app")
        [card] = ModelBuilder().build(take(providers, clock)).providers
        clock.step(2)
        found.append((card.state, bool(card.cure)))
    assert found == [
        (ProviderState.NO_CREDENTIAL, False),
        (ProviderState.NO_CREDENTIAL, False),
        (ProviderState.FAILING, True),
        (ProviderState.NO_CREDENTIAL, False),
        (ProviderState.WELL, False),
    ]


def test_other_commands_are_told_the_places_that_the_agent_was_given() -> None:
    """What they would find on the node by themselves, they need not be told."""
    clock = Clock()
    snapshot = take(world(clock, Scripted(response(cache_seconds=100))), clock)
    assert ModelBuilder().build(snapshot).place_options == ""
    settings = snapshot.state.settings
    given = replace(settings, origins={**settings.origins, "binDir": "flag --bin-dir"})
    snapshot = replace(snapshot, state=replace(snapshot.state, settings=given))
    assert ModelBuilder().build(snapshot).place_options == " --bin-dir /bin-dir"
    assert ModelBuilder().build(snapshot).socket_options == ""
    snapshot = replace(snapshot, socket_options=("--socket", "/my agent.sock"))
    assert ModelBuilder().build(snapshot).socket_options == " --socket '/my agent.sock'"


def test_the_last_error_has_words_and_a_cure_and_nothing_that_was_printed() -> None:
    clock = Clock()
    plugin = Scripted(PluginExitError("plugin", 3, "", "printed-this"))
    providers = world(clock, plugin)
    providers.lookup("reg.io/app")
    clock.step(5)
    model = ModelBuilder().build(take(providers, clock))
    card = model.providers[0]
    assert (card.last_error, card.last_error_at) == ("plugin 'plugin': exited with status 3", NOW - 5)
    assert card.cure.startswith(
        "keyferry plugin trace /bin-dir/plugin reg.io/app --config /etc/providers.yaml"
    )
    assert (card.runs, card.failures, card.last_error_image) == (1, 1, "reg.io/app")
    assert "printed-this" not in repr(model)
    plugin.answer = PluginNotFoundError("plugin", "is missing")
    providers.lookup("reg.io/app")
    assert (
        ModelBuilder()
        .build(take(providers, clock))
        .providers[0]
        .cure.startswith("keyferry lint /etc/providers.yaml")
    )


def test_latency_is_the_histogram_of_the_metrics() -> None:
    clock = Clock()
    providers = world(clock, Scripted(response(cache_seconds=100)))
    providers.lookup("reg.io/app")
    latency = ModelBuilder().build(take(providers, clock)).providers[0].latency
    assert latency[-1] == LatencyBucket(up_to_seconds=None, runs=0)
    assert sum(bucket.runs for bucket in latency) == 1


def test_decisions_callers_and_settings_are_harmless_text() -> None:
    clock = Clock()
    providers = world(clock, Scripted(response(cache_seconds=100)))
    entry = ask(providers, "reg.io/app", uid=0)
    model = ModelBuilder().build(take(providers, clock, entries=(entry,)))
    [decision], [caller] = model.decisions, model.callers
    assert (decision.uid, decision.program, decision.milliseconds) == (0, "/bin/\ufffdclient", 2.5)
    assert (decision.outcome, decision.source) == ("answered", "run")
    assert (caller.name, caller.last_image, caller.refused) == ("root", "reg.io/app", 1)
    assert ("watch", "true", "default") in model.settings
    assert model.accounts == ("ns/seen",)


def test_lives_are_bounded_and_counted() -> None:
    clock = Clock()
    plugin = Scripted(response(cache_key_type="Image", cache_seconds=100))
    limits = CacheLimits(entries=20_000, bytes=1 << 30)
    providers = Providers([Provider(configured(), plugin, clock=clock, cache_limits=limits)], clock=clock)
    for number in range(10_050):
        providers.providers[0].provide(f"reg.io/app{number}")
    model = ModelBuilder().build(take(providers, clock))
    assert (len(model.lives), model.lives_total) == (10_000, 10_050)
    assert len({life.identifier for life in model.lives}) == 10_000


def test_rows_that_have_not_changed_stay_the_same() -> None:
    """So what is not new is not made again, nor sent again; a renewed answer is new."""
    clock, builder = Clock(), ModelBuilder()
    plugin = Scripted(response(cache_key_type="Image", cache_seconds=1000))
    providers = world(clock, plugin)
    entry = ask(providers, "reg.io/one")
    providers.lookup("reg.io/two")
    first = builder.build(take(providers, clock, entries=(entry,)))
    clock.step(0.001)  # the snapshot's instant stays, as if the wall clock were set a little
    providers.providers[0].refresh("reg.io/two")
    second = builder.build(take(providers, clock, entries=(entry,)))
    same = {life.scope: life is second.lives[at] for at, life in enumerate(first.lives)}
    assert same == {"reg.io/one": True, "reg.io/two": False}
    assert second.decisions[0] is first.decisions[0]
    assert [life.identifier for life in first.lives] == [life.identifier for life in second.lives]
    clock.step(10)  # now it is set
    third = builder.build(take(providers, clock))
    assert third.lives[0].expires == first.lives[0].expires - 10.001
