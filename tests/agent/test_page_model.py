"""The model has what the agent has: lives and their windows, states of providers, decisions; and no secret."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from keyferry import PluginExitError, PluginNotFoundError
from keyferry._core.secrets import MASK
from keyferry.agent.access import Caller
from keyferry.agent.journal import JournalEntry, RequestDecision, result_of_refusal
from keyferry.agent.message import EventSink
from keyferry.agent.page.explanation import explain_cached
from keyferry.agent.page.model import ModelBuilder
from keyferry.agent.page.server import EventHub
from keyferry.agent.providers import AgentProviders
from keyferry.agent.refresh import PlannedRefresh
from keyferry.agent.state import ReloadOutcome
from keyferry.api.agentconfig.v1alpha1 import AccessRule, AgentConfig, ManageRule
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.provider.accounts import Relayed
from keyferry.images.provider.cache import CacheLimits
from keyferry.images.provider.plugin import ExecPlugin
from keyferry.lint.kinds.agent_config import check_agent_config
from keyferry.page.model import (
    Advice,
    DecisionRow,
    ExplainedPull,
    Health,
    LatencyBucket,
    PageModel,
    StepState,
)
from support.page_snapshots import NOW, STARTED, ask, take
from support.scripted import SECOND, V1, Clock, attributes, cache_hits, response
from support.scripted_agent import IMAGE, ScriptedAgent

SECRET = "secret-word"


class Agent(ScriptedAgent):
    """An agent with a page."""

    def show(self, **snapshot: Any) -> PageModel:
        """Return what the page shows now."""
        return ModelBuilder().build(take(self.providers, self.clock, **snapshot))


FAILURE = PluginExitError("plugin", 1)
REFRESH = PlannedRefresh(provider="plugin", base="reg.io", image=IMAGE)
BUILDER = Relayed(
    token="t", key=b"k", until_ns=1 << 60, ref=ServiceAccountRef(namespace="ns", name="builder", uid="u")
)


def test_a_life_has_its_window_and_its_planned_instant() -> None:
    agent = Agent(response(SECRET, cache_seconds=1000))
    got_ns = agent.clock.now
    agent.look_up(step=100)
    model = agent.show(planned=((got_ns + 700 * SECOND, REFRESH, 2),))
    [life] = model.lives
    assert (life.provider, life.scope, life.account, life.credentials) == ("plugin", "reg.io", "", 1)
    assert (life.got, life.expires) == (NOW - 100, NOW + 900)
    assert (life.refresh_from, life.refresh_until, life.refresh_at) == (NOW + 400, NOW + 800, NOW + 600)
    assert (life.failures, model.providers[0].next_refresh) == (2, NOW + 600)
    assert SECRET not in repr(model)


def test_an_answer_of_a_service_account_is_not_renewed() -> None:
    """Its account is what the caller named."""
    agent = Agent(token_attributes=attributes(require=False))
    agent.providers.lookup(IMAGE, pod=BUILDER)
    model = agent.show(planned=((agent.clock.now + SECOND, REFRESH, 3),))
    [life] = model.lives
    assert (life.account, life.refresh_at, life.failures) == ("ns/builder", None, 0)
    assert model.accounts == ("ns/builder",)


def test_a_global_answer_is_for_every_image() -> None:
    agent = Agent(response(cache_key_type="Global", cache_seconds=10))
    agent.look_up()
    [life] = agent.show().lives
    assert (life.scope, life.refresh_from) == ("every image", None)


def test_other_commands_are_told_the_places_that_the_agent_was_given() -> None:
    """What they would find on the node by themselves, they need not be told."""
    found = Agent().show()
    assert (found.place_options, found.socket_options) == ("", "")
    told = Agent().show(origins={"binDir": "flag --bin-dir"}, socket_options=("--socket", "/my agent.sock"))
    assert (told.place_options, told.socket_options) == (" --bin-dir /bin-dir", " --socket '/my agent.sock'")


def test_the_last_error_has_words_a_cure_and_one_line_that_was_printed() -> None:
    """As the status tells it to the same people; a decision has nothing of it."""
    agent = Agent(PluginExitError("plugin", 3, "", "printed-first\nprinted-second"))
    agent.look_up(step=5)
    model = agent.show()
    card = model.providers[0]
    assert card.last_error is not None
    assert (card.last_error.text, card.last_error.said) == (
        "plugin 'plugin': exited with status 3",
        "printed-first",
    )
    assert "'keyferry agent status -o json' has the last ones" in card.last_error.hidden
    assert (card.last_error.at, card.last_error.image) == (NOW - 5, IMAGE)
    assert card.trouble == model.health.problems[0].reason == "exited with status 3: printed-first"
    assert card.cure.startswith(f"keyferry plugin trace /bin-dir/plugin {IMAGE} --config /etc/providers.yaml")
    assert (card.runs, card.failures) == (1, 1)
    assert "printed-second" not in repr(model)
    assert "printed" not in repr(model.decisions)
    agent.look_up(answer=PluginNotFoundError("plugin", "is missing"))
    assert agent.show().providers[0].cure.startswith("keyferry lint /etc/providers.yaml")


def test_latency_is_the_histogram_of_the_metrics() -> None:
    agent = Agent()
    agent.look_up()
    latency = agent.show().providers[0].latency
    assert latency[-1] == LatencyBucket(up_to_seconds=None, runs=0)
    assert sum(bucket.runs for bucket in latency) == 1


def test_decisions_callers_and_settings_are_harmless_text() -> None:
    agent = Agent()
    model = agent.show(entries=(ask(agent.providers, IMAGE, uid=0),))
    [decision], [caller] = model.decisions, model.callers
    assert (decision.uid, decision.program, decision.milliseconds) == (0, "/bin/\ufffdclient", 2.5)
    assert (decision.outcome, decision.source) == ("answered", "run")
    assert (caller.name, caller.last_image, caller.refused) == ("root", IMAGE, 1)
    assert ("watch", "true", "default") in model.settings
    assert model.accounts == ("ns/seen",)


RULES = AgentConfig(
    access=(
        AccessRule(uids=(1000,), registries=("other.io", "*.wide.io")),
        AccessRule(gids=(27,), every_registry=True),
        AccessRule(uids=(1000, 1001), registries=("third.io",)),
    ),
    manage=(ManageRule(uids=(1001,)),),
)


def refused(uid: int, missing_rule: str = "access") -> DecisionRow:
    """A refused request as the page shows it, under some rules."""
    result = result_of_refusal(uid, "may not", missing_rule)
    decision = RequestDecision(image=IMAGE, account="", provider="", result=result)
    caller = Caller(uid=uid, gids=frozenset({5}))
    entry = JournalEntry(number=1, at=NOW, caller=caller, decision=decision, seconds=0.1)
    [row] = Agent().show(config=RULES, entries=(entry,)).decisions
    return row


@pytest.mark.parametrize(
    ("uid", "missing_rule", "rules", "line"),
    [
        (1000, "access", ("access[0]", "access[2]"), '- {uids: [1000], registries: ["reg.io"]}'),
        (2000, "access", (), '- {uids: [2000], registries: ["reg.io"]}'),
        (2000, "manage", (), "- {uids: [2000]}"),
    ],
)
def test_a_refusal_names_the_rules_of_the_user_and_what_to_add(
    uid: int, missing_rule: str, rules: tuple[str, ...], line: str
) -> None:
    """A line that the agent's config takes, below the list that lacks it."""
    refusal = refused(uid, missing_rule).refusal
    assert refusal is not None
    assert refusal.rules == rules
    assert refusal.advice.text.startswith(f"If user {uid} is to be allowed, add this below '{missing_rule}:'")
    assert "/etc/own.yaml" in refusal.advice.text
    assert refusal.advice.lines == (line,)
    head = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"
    checked = check_agent_config("x", f"{head}{missing_rule}:\n{line}\n".encode())
    assert checked.refusals == ()


def test_nobody_is_told_to_let_in_everybody() -> None:
    """The overflow user is every user without a number here."""
    refusal = refused(65_534).refusal
    assert refusal is not None
    assert refusal.advice.lines == ()
    assert "of its own" in refusal.advice.text


def test_a_request_that_no_rule_could_allow_names_none() -> None:
    assert refused(1000, "").refusal is None


def test_the_access_rules_are_shown_by_their_place() -> None:
    found = Agent().show(config=RULES).access
    assert [(each.name, each.who, each.registries, each.may_manage) for each in found] == [
        ("always", "root and the agent's user", ("every registry",), True),
        ("access[0]", "uid:1000", ("other.io", "*.wide.io"), False),
        ("access[1]", "gid:27", ("every registry",), False),
        ("access[2]", "uid:1000 uid:1001", ("third.io",), False),
        ("manage[0]", "uid:1001", (), True),
    ]


def test_the_figures_count_lookups_and_not_renewals() -> None:
    agent = Agent()
    agent.look_up(times=4)
    agent.renew()
    agent.renew(answer=FAILURE)
    model = agent.show()
    assert (model.lookups, model.from_cache, model.failed_lately) == (4, 3, 1)
    agent.clock.step(3600)
    assert agent.show().failed_lately == 0


def test_a_provider_shows_what_its_plugin_is_given_and_no_value() -> None:
    plugin = ExecPlugin(
        name="plugin",
        path="/bin-dir/plugin",
        api_version=V1,
        args=("--region", "eu-west-1", "--token", SECRET),
        env=(("REGISTRY_PASSWORD", SECRET), ("AWS_REGION", "eu-west-1")),
    )
    model = Agent(plugin, default_seconds=90, token_attributes=attributes()).show()
    facts = model.providers[0].plugin
    assert facts.arguments == ("--region", "eu-west-1", "--token", MASK)
    assert facts.variables == ("REGISTRY_PASSWORD", "AWS_REGION")
    assert (facts.cache_duration, facts.is_for_accounts) == ("1m30s", True)
    assert facts.audience == attributes().service_account_token_audience
    assert SECRET not in repr(model)


def test_lives_are_bounded_and_counted() -> None:
    limits = {"cache_limits": CacheLimits(entries=20_000, bytes=1 << 30)}
    agent = Agent(response(cache_key_type="Image", cache_seconds=100), settings=limits)
    for number in range(10_050):
        agent.provider.provide(f"reg.io/app{number}")
    model = agent.show()
    assert (len(model.lives), model.lives_total) == (10_000, 10_050)
    assert len({life.identifier for life in model.lives}) == 10_000


def test_rows_that_have_not_changed_stay_the_same() -> None:
    """So what is not new is not made again, nor sent again; a renewed answer is new."""
    agent, builder = Agent(response(cache_key_type="Image", cache_seconds=1000)), ModelBuilder()
    entry = ask(agent.providers, "reg.io/one")
    agent.look_up("reg.io/two")
    first = builder.build(take(agent.providers, agent.clock, entries=(entry,)))
    agent.clock.step(0.001)  # the snapshot's instant stays, as if the wall clock were set a little
    agent.renew("reg.io/two")
    second = builder.build(take(agent.providers, agent.clock, entries=(entry,)))
    same = {life.scope: life is second.lives[at] for at, life in enumerate(first.lives)}
    assert same == {"reg.io/one": True, "reg.io/two": False}
    assert second.decisions[0] is first.decisions[0]
    assert [life.identifier for life in first.lives] == [life.identifier for life in second.lives]
    agent.clock.step(10)  # now it is set
    third = builder.build(take(agent.providers, agent.clock))
    assert third.lives[0].expires == first.lives[0].expires - 10.001


STEPS = ("secrets", "node-config", "providers", "keys", "order", "verdict")


CONFIGS: tuple[dict[str, Any], ...] = (
    {"name": "open", "match_images": ("reg.io", "*.wide.io")},
    {"name": "closed", "match_images": ("sa.io",), "token_attributes": attributes()},
)


class World:
    """Two providers: one for everybody, one that needs a service account."""

    def __init__(self) -> None:
        self.clock = Clock()
        secrets = (response(SECRET, keys=(key,)) for key in ("reg.io", "sa.io"))
        asked = [
            ScriptedAgent(each, clock=self.clock, **config)
            for each, config in zip(secrets, CONFIGS, strict=True)
        ]
        self.plugins = [each.plugin for each in asked]
        self.providers = asked[0].beside(asked[1])

    def explain(self, image: str, account: str = "") -> ExplainedPull:
        """Explain, and check that nothing happened and that nothing secret is said."""
        before = self._counts()
        found = explain_cached(take(self.providers, self.clock), image, account)
        assert self._counts() == before
        assert SECRET not in repr(found)
        assert "'user'" not in repr(found)
        return found

    def _counts(self) -> object:
        runs = [plugin.runs for plugin in self.plugins]
        return (
            runs,
            cache_hits(self.providers),
            [each.counters.read().shared for each in self.providers.providers],
        )


def states(found: ExplainedPull) -> dict[str, StepState]:
    assert tuple(step.name for step in found.steps) == STEPS
    return {step.name: step.state for step in found.steps}


def lines(found: ExplainedPull, name: str) -> str:
    return "\n".join(next(step.lines for step in found.steps if step.name == name))


def test_what_is_cached_would_be_answered_until_its_end() -> None:
    world = World()
    world.providers.lookup("reg.io/app:v1")
    found = world.explain("reg.io/app:v2")
    assert found.verdict == "Would answer from the cache until 1970-01-12T14:05:00Z"
    assert states(found) == {
        "secrets": StepState.UNKNOWN,
        "node-config": StepState.UNKNOWN,
        **dict.fromkeys(("providers", "keys", "order", "verdict"), StepState.USED),
    }
    assert "open: pattern 'reg.io' matches the image" in lines(found, "providers")
    assert "from the cache, the plugin was not run" in lines(found, "providers")
    assert "1 provider does not match the image" in lines(found, "providers")
    assert lines(found, "order") == "1. the login of provider open, key 'reg.io'"
    assert found.cures == (
        Advice(
            text="To check whether reg.io accepts it:",
            lines=("keyferry explain reg.io/app:v2 --check-registry",),
        ),
    )
    assert [each.lines for each in found.in_full] == [
        ("keyferry explain reg.io/app:v2 --docker-config auto --check-registry",),
        ("keyferry explain pod/POD -n NAMESPACE --check-registry",),
    ]


def test_what_is_not_cached_would_run_the_plugin() -> None:
    found = World().explain("reg.io/app")
    assert found.verdict == "Would run the plugin 'open'"
    assert lines(found, "providers").splitlines()[1] == "open: would run the plugin 'open'"
    assert states(found)["providers"] is StepState.UNKNOWN


def test_a_plugin_that_failed_is_named_in_our_words() -> None:
    world = World()
    world.plugins[0].answer = PluginExitError("open", 4, "", "printed-this")
    world.providers.lookup("reg.io/app")
    found = world.explain("reg.io/app")
    assert "its last run failed: plugin 'open': exited with status 4" in lines(found, "providers")
    assert found.verdict == "Would run the plugin 'open'; the last run failed"
    assert (states(found)["providers"], states(found)["verdict"]) == (StepState.BROKEN, StepState.BROKEN)
    assert "printed-this" not in repr(found)
    command = "keyferry plugin trace /bin-dir/open reg.io/app --config /etc/providers.yaml -o text"
    assert found.cures == (Advice(text="See why 'open' fails:", lines=(command,)),)


def test_no_provider_and_a_near_miss() -> None:
    world = World()
    found = world.explain("elsewhere.io/app")
    assert found.verdict.startswith("No provider matches")
    assert states(found)["verdict"] is StepState.PASSED
    near = world.explain("reg.io:5000/app")
    assert "'reg.io:5000' would match" in lines(near, "providers")
    assert near.cures


def test_a_service_account_finds_its_own_answer_by_the_name_that_the_caller_gave() -> None:
    world = World()
    assert world.explain("sa.io/app", "ns/builder").verdict == "Would run the plugin 'closed'"
    assert "with a token of ns/builder" in lines(world.explain("sa.io/app", "ns/builder"), "providers")
    world.providers.lookup("sa.io/app", pod=BUILDER)
    found = world.explain("sa.io/other", "ns/builder")
    assert found.verdict.endswith("to who has the same token")
    assert "an answer for ns/builder is cached until" in lines(found, "providers")
    assert [each.lines for each in found.in_full] == [
        ("keyferry explain sa.io/other --service-account ns/builder --docker-config auto --check-registry",),
        ("keyferry explain pod/POD -n ns --check-registry",),
        ("kubectl get serviceaccount builder -n ns -o yaml",),
    ]
    assert world.explain("sa.io/app", "ns/other").verdict == "Would run the plugin 'closed'"
    assert world.explain("sa.io/app").verdict == "Would run the plugin 'closed'"


@pytest.mark.parametrize("image", ["a b", "\x1b[31m", "x" * 5000, "/", "<script>"])
def test_what_is_no_image_is_told_as_text(image: str) -> None:
    found = World().explain(image)
    assert (found.steps, found.in_full) == ((), ())
    assert "\x1b" not in repr(found)
    assert len(found.image) <= 1024


def test_a_name_that_is_longer_than_any_is_not_parsed() -> None:
    """Nor is a part of it, which would be another image."""
    found = World().explain("reg.io/app:" + "t" * 1014)
    assert (found.verdict, found.steps) == ("the name is longer than 1024 characters", ())
    assert len(found.image) == 255


def loaded(*at: float, is_applied: bool, since: float) -> tuple[ReloadOutcome, ...]:
    problems = () if is_applied else ("broken",)
    return tuple(ReloadOutcome(at=each, is_applied=is_applied, since=since, problems=problems) for each in at)


START = loaded(STARTED, is_applied=True, since=STARTED)
REFUSED = loaded(STARTED + 10, STARTED + 20, is_applied=False, since=STARTED + 10)
REPAIRED = loaded(STARTED + 30, STARTED + 40, is_applied=True, since=STARTED + 30)


@pytest.mark.parametrize(
    ("reloads", "taken_over_at", "level", "headline", "since"),
    [
        pytest.param((), None, "well", "All is well", STARTED, id="well since the start"),
        pytest.param(REFUSED, None, "warning", "1 warning", STARTED + 10, id="since the first refusal"),
        pytest.param((*REFUSED, *REPAIRED), None, "well", "All is well", STARTED + 30, id="repaired"),
        pytest.param((), STARTED + 9, "warning", "1 warning", STARTED + 9, id="without its socket"),
        pytest.param(REFUSED, NOW, "warning", "2 warnings", STARTED + 10, id="several things"),
    ],
)
def test_the_agent_is_well_or_not_since_an_instant(
    reloads: tuple[ReloadOutcome, ...], taken_over_at: float | None, level: str, headline: str, since: float
) -> None:
    """A provider that has never failed changes nothing."""
    agent = Agent()
    agent.look_up()
    found = agent.show(reloads=(*START, *reloads), taken_over_at=taken_over_at).health
    assert (found.level, found.headline, found.since) == (level, headline, since)


def test_a_refused_config_has_its_reason_and_a_cure() -> None:
    [problem] = Agent().show(reloads=(*START, *REFUSED)).health.problems
    assert problem.reason == "broken"
    assert (problem.link, problem.cure) == ("/reloads", "keyferry lint /etc/own.yaml /etc/providers.yaml")


def test_without_a_provider_there_is_nothing_that_could_be_well() -> None:
    agent = Agent()
    agent.providers = AgentProviders([], clock=agent.clock)
    found = agent.show().health
    assert found == Health(headline="No provider is configured", since=STARTED, is_idle=True)
    assert found.level == "none"
    assert agent.show(reloads=(*START, *REFUSED)).health.level == "warning"


def test_a_provider_that_fails_is_not_well_until_it_runs_again() -> None:
    """Since the first failure in a row; then it is well since the first run that did not fail."""
    agent = Agent(FAILURE)
    agent.look_up(times=3, step=7)
    found = agent.show().health
    assert (found.problems[0].link, found.since) == ("/providers/plugin", NOW - 21)
    assert found.problems[0].cure.startswith("keyferry plugin trace")
    agent.look_up(answer=response(cache_seconds=0), times=3, step=5)
    found = agent.show().health
    assert (found.level, found.headline) == ("warning", "1 warning")
    assert found.problems[0].text == "Provider plugin is unstable: 3 of its last 6 runs failed"
    agent.look_up(times=7)
    found = agent.show().health
    assert (found.level, found.since) == ("well", NOW - 15)
    agent.look_up(answer=FAILURE)
    assert agent.show().health.since == NOW


def test_a_pull_that_gets_nothing_is_told_although_others_are_served() -> None:
    """What is cached for one registry is of no use to another; the reason is that of the pull that gets nothing."""
    agent = Agent(response(cache_key_type="Image", cache_seconds=1000))
    agent.look_up()
    agent.look_up(
        "reg.io/other", answer=PluginExitError("plugin", 1, stderr_tail="no such repository"), step=60
    )
    agent.renew(answer=PluginExitError("plugin", 2, stderr_tail="a renewal failed"))
    found = agent.show().health
    [problem] = found.problems
    assert (found.headline, problem.level, problem.since) == ("1 problem", "bad", NOW - 60)
    assert problem.text == "Provider plugin fails for reg.io/other; others are served from the cache"
    assert problem.reason.endswith("no such repository")
    agent.look_up("reg.io/another", answer=FAILURE)
    [problem] = agent.show().health.problems
    assert "fails for reg.io/another and 1 other image; others" in problem.text


class Sink(EventSink):
    """Keeps what was sent; reads nothing if it is slow."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_slow = self.is_closed = False

    def write(self, data: bytes) -> bool:
        """Keep what is sent."""
        if not self.is_slow:
            self.sent.append(data)
        return not self.is_slow

    def close(self) -> None:
        """Keep that it was closed."""
        self.is_closed = True

    def sections(self) -> dict[str, str]:
        """The last event's data."""
        head, data = self.sent[-1].decode().split("\n", 1)
        assert head == "event: sections"
        found = json.loads(data.removeprefix("data: "))
        assert isinstance(found, dict)
        return found


class EventsWorld:
    """A hub on a stepped clock, whose views are what a test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.views: dict[str, dict[str, str]] = {"/": {"a": "1", "b": "1"}}
        self.rendered: list[str] = []
        self.hub = EventHub(self._render, clock=lambda: self.now)

    async def _render(self, view: str) -> dict[str, str] | None:
        self.rendered.append(view)
        return self.views.get(view)

    def follow(self, view: str = "/") -> Sink:
        """Add a stream."""
        sink = Sink()
        self.hub.follow(view, sink, lambda: True)
        return sink

    def update(self) -> None:
        """Let a second pass."""
        asyncio.run(self.hub.update())


def test_only_what_has_changed_is_sent() -> None:
    """A late client gets all; a view is rendered once for all who follow it."""
    world = EventsWorld()
    first = world.follow()
    world.update()
    assert first.sections() == {"a": "1", "b": "1"}
    second = world.follow()
    world.views["/"] = {"a": "2", "b": "1"}
    world.update()
    assert (first.sections(), second.sections()) == ({"a": "2"}, {"a": "2", "b": "1"})
    world.update()
    assert (len(first.sent), len(second.sent), world.rendered) == (2, 1, ["/"] * 3)


def test_a_silent_view_has_a_heartbeat() -> None:
    world = EventsWorld()
    sink = world.follow()
    for _ in range(31):
        world.update()
        world.now += 1
    names = [data.partition(b"\n")[0] for data in sink.sent]
    assert names == [b"event: sections", b"event: alive", b"event: alive"]


def test_who_does_not_read_gets_the_newest_later() -> None:
    """Nothing is kept for it meanwhile."""
    world = EventsWorld()
    sink = world.follow()
    sink.is_slow = True
    for number in range(5):
        world.views["/"] = {"a": str(number), "b": "1"}
        world.update()
    sink.is_slow = False
    world.update()
    assert (len(sink.sent), sink.sections()) == (1, {"a": "4", "b": "1"})


def test_who_has_gone_or_may_no_more_gets_nothing() -> None:
    world = EventsWorld()
    gone, refused, is_allowed = Sink(), Sink(), [True]
    leave = world.hub.follow("/", gone, lambda: True)
    world.hub.follow("/", refused, lambda: is_allowed[0])
    leave()
    world.update()
    is_allowed[0] = False
    world.update()
    assert (gone.sent, len(refused.sent), refused.is_closed, len(world.hub)) == ([], 1, True, 0)
    rendered = len(world.rendered)
    world.update()
    assert len(world.rendered) == rendered


def test_a_view_that_cannot_be_rendered_disturbs_no_other() -> None:
    world = EventsWorld()
    lost, found = world.follow("/lost"), world.follow()
    world.update()
    assert (lost.sent, len(found.sent)) == ([], 1)
