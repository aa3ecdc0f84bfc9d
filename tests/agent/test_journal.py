"""The journal is bounded in every direction, and knows the last request of each user."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.agent.access import Caller, EvictionLimit
from keyferry.agent.journal import (
    NO_PROVIDER,
    DecisionOutcome,
    DecisionResult,
    Journal,
    RequestDecision,
    Usage,
    own_words,
    result_of_answer,
    result_of_provision,
)
from keyferry.agent.providers import AgentProviders
from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.errors import (
    KeyferryError,
    PluginExitError,
    PluginProtocolError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.provider.provider import Provider
from keyferry.images.reference import parse_image
from support.scripted import Clock, Scripted, attributes, configured, response


def caller(uid: int) -> Caller:
    return Caller(uid=uid, gids=frozenset(), pid=1, program="/bin/program")


def decision(image: str, account: str = "") -> RequestDecision:
    return RequestDecision(image=image, account=account, provider="", result=NO_PROVIDER)


def test_the_newest_come_first_and_the_oldest_go() -> None:
    journal = Journal(is_on=True, max_entries=3)
    for number in range(5):
        journal.add(caller(number % 2), decision(f"image{number}"), float(number), 0.001)
    assert [entry.decision.image for entry in journal.newest_first()] == ["image4", "image3", "image2"]
    assert (journal.number, journal.newest_first()[0].number) == (5, 5)


def test_the_last_request_of_a_user_outlives_the_list() -> None:
    journal = Journal(is_on=True, max_entries=1)
    journal.add(caller(7), decision("mine"), 1.0, 0.0)
    journal.add(caller(8), decision("other"), 2.0, 0.0)
    last = journal.last_of(7)
    assert last is not None
    assert (last.decision.image, last.caller.program) == ("mine", "/bin/program")
    assert journal.last_of(9) is None


def test_users_and_accounts_are_bounded() -> None:
    journal = Journal(is_on=True)
    for number in range(2000):
        journal.add(caller(number), decision("image", f"ns/account{number:04}"), 1.0, 0.0)
    assert len(journal._last_of_user) <= 256
    assert journal.accounts() == [f"ns/account{number:04}" for number in range(1500, 2000)]


NAMES = ("plugin",)


def world(plugin: Scripted, **fields: object) -> AgentProviders:
    clock = Clock()
    return AgentProviders([Provider(configured(**fields), plugin, clock=clock)], clock=clock)  # type: ignore[arg-type] # as configured


def test_a_run_and_then_the_cache() -> None:
    asked = world(Scripted(response(cache_seconds=60)))
    ran, cached = (result_of_answer(asked.lookup("reg.io/app")) for _ in range(2))
    assert ran == DecisionResult(
        outcome=DecisionOutcome.ANSWERED,
        source="run",
        reason="provider 'plugin': the plugin was run",
        providers=NAMES,
    )
    assert cached == DecisionResult(
        outcome=DecisionOutcome.ANSWERED,
        source="cache",
        reason="provider 'plugin': from the cache",
        providers=NAMES,
    )


def test_an_answer_without_a_credential_says_so() -> None:
    asked = world(Scripted(response(cache_seconds=60, keys=())))
    for way, source in (("the plugin was run", "run"), ("from the cache", "cache")):
        found = result_of_answer(asked.lookup("reg.io/app"))
        reason = f"provider 'plugin': {way}, without a credential"
        assert found == DecisionResult(
            outcome=DecisionOutcome.NO_CREDENTIAL, source=source, reason=reason, providers=NAMES
        )


def test_an_answer_whose_keys_are_for_other_images_says_so() -> None:
    """A failure beside it counts for more."""
    answers = Scripted(response(cache_seconds=60, keys=("other.io",)))
    reason = "provider 'plugin': the plugin was run, without a credential for the image"
    assert result_of_answer(world(answers).lookup("reg.io/app")) == DecisionResult(
        outcome=DecisionOutcome.NO_CREDENTIAL, source="run", reason=reason, providers=NAMES
    )
    fails = Provider(configured(name="broken"), Scripted(PluginExitError("broken", 1)))
    found = result_of_answer(AgentProviders([Provider(configured(), answers), fails]).lookup("reg.io/app"))
    assert (found.outcome, found.reason.startswith(reason)) == (DecisionOutcome.FAILED, True)
    assert found.providers == ("plugin", "broken")


def test_no_provider_and_a_provider_that_does_not_apply() -> None:
    asked = world(Scripted(response()), token_attributes=attributes())
    assert result_of_answer(asked.lookup("other.io/app")).reason == "no provider matches the image"
    found = result_of_answer(asked.lookup("reg.io/app"))
    assert (found.outcome, found.source, found.providers) == (DecisionOutcome.NO_MATCH, "", ())
    assert found.reason == "provider 'plugin': it needs a service account"


def test_a_failure_has_our_words_and_not_the_plugins() -> None:
    asked = world(Scripted(PluginExitError("plugin", 3, "text", "said this word")))
    found = result_of_answer(asked.lookup("reg.io/app"))
    assert found == DecisionResult(
        outcome=DecisionOutcome.FAILED,
        source="",
        reason="provider 'plugin': failed: plugin 'plugin': exited with status 3",
        providers=NAMES,
        failures=(("plugin", "exited with status 3"),),
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PluginExitError("p", -9, "k", "tail"), "plugin 'p': was killed by SIGKILL"),
        (PluginTimeoutError("p", 5, "k", "tail"), "plugin 'p': did not finish within 5 s and was killed"),
        (PluginTimeoutError("p", 5, was_killed=False), "did not finish within 5 s, spent waiting"),
        (PluginProtocolError("p", "no JSON"), "plugin 'p': no JSON"),
        (ServiceAccountError("is for 'tail'", "k"), "the service account or its token cannot be used"),
    ],
)
def test_an_error_without_what_others_wrote(error: KeyferryError, words: str) -> None:
    assert words in own_words(error)
    assert "tail" not in own_words(error)


def test_one_provider_that_was_asked_by_name() -> None:
    image = parse_image("reg.io/app:v1")
    assert result_of_provision(None, image).outcome is DecisionOutcome.NO_MATCH
    shared = Provision(
        provider="p", outcome=ProvisionOutcome.SHARED, auth={"reg.io": AuthConfig(username="u", password="p")}
    )
    answered = result_of_provision(shared, image)
    assert (answered.outcome, answered.source) == (DecisionOutcome.ANSWERED, "shared")
    assert result_of_provision(shared, parse_image("else.io/app")) == DecisionResult(
        outcome=DecisionOutcome.NO_CREDENTIAL,
        source="shared",
        reason="provider 'p': the run of another lookup, without a credential for the image",
        providers=("p",),
    )
    empty = Provision(provider="p", outcome=ProvisionOutcome.CACHED)
    cached = result_of_provision(empty, image)
    assert (cached.outcome, cached.source) == (DecisionOutcome.NO_CREDENTIAL, "cache")
    skipped = Provision(provider="p", outcome=ProvisionOutcome.SKIPPED, skipped="it lacks an annotation")
    assert result_of_provision(skipped, image) == DecisionResult(
        outcome=DecisionOutcome.NO_MATCH, source="", reason="provider 'p': skipped: it lacks an annotation"
    )
    failed = Provision(provider="p", outcome=ProvisionOutcome.FAILED, error=PluginExitError("p", 1))
    assert result_of_provision(failed, image).outcome is DecisionOutcome.FAILED


def test_users_beyond_a_number_are_counted_together() -> None:
    usage = Usage()
    for uid in range(1000):
        usage.count(uid, 403 if uid % 2 else 200, 1.0)
    users = usage.users()
    assert len(users) <= 257
    assert sum(each.requests for each in users.values()) == 1000
    assert sum(each.refused for each in users.values()) == 500
    assert usage.by_status == {200: 500, 403: 500}


@given(st.lists(st.floats(0, 5), max_size=80))
def test_evictions_are_a_burst_and_then_one_in_three_seconds(pauses: list[float]) -> None:
    """However they come; who waits as long as it is told may evict again."""
    limit, now, allowed = EvictionLimit(), 0.0, 0
    for pause in pauses:
        now += pause
        wait = limit.wait_seconds(7, now)
        allowed += not wait
        assert allowed <= 10 + now / 3.0 + 1e-6
        if wait:
            now += wait
            assert limit.wait_seconds(7, now) == 0
            allowed += 1
    assert limit.wait_seconds(8, now) == 0


def test_many_users_do_not_fill_the_memory() -> None:
    limit = EvictionLimit()
    for uid in range(5000):
        limit.wait_seconds(uid, float(uid))
    assert len(limit._free_at) <= 257
