"""The journal is bounded in every direction, and knows the last request of each user."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry import parse_image
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
from keyferry.api.credentialprovider.v1 import AuthConfig, CredentialProviderResponse
from keyferry.errors import (
    KeyferryError,
    PluginExitError,
    PluginProtocolError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.images.answer import Provision, ProvisionOutcome
from support.scripted import attributes, response
from support.scripted_agent import IMAGE, ScriptedAgent


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
    journal, sizes = Journal(is_on=True, max_entries=3), []
    for number in range(4000):
        journal.add(caller(number), decision("image", f"ns/account{number:04}"), 1.0, 0.0)
        sizes.append(len(pickle.dumps(journal)) if number % 100 == 0 else 0)
    assert max(sizes[2000:]) <= max(sizes[:2000]) + 100  # larger numbers take a few bytes more
    assert journal.accounts() == [f"ns/account{number:04}" for number in range(3500, 4000)]


FULL, EMPTY = response(cache_seconds=60), response(cache_seconds=60, keys=())
OTHERS = response(cache_seconds=60, keys=("other.io",))


@pytest.mark.parametrize(
    ("answer", "outcome", "ending"),
    [
        pytest.param(FULL, DecisionOutcome.ANSWERED, "", id="a credential"),
        pytest.param(EMPTY, DecisionOutcome.NO_CREDENTIAL, ", without a credential", id="none"),
        pytest.param(
            OTHERS, DecisionOutcome.NO_CREDENTIAL, ", without a credential for the image", id="one for others"
        ),
    ],
)
def test_an_answer_is_told_with_its_source(
    answer: CredentialProviderResponse, outcome: DecisionOutcome, ending: str
) -> None:
    asked = ScriptedAgent(answer).providers
    for source, words in (("run", "the plugin was run"), ("cache", "from the cache")):
        assert result_of_answer(asked.lookup(IMAGE)) == DecisionResult(
            outcome=outcome,
            source=source,
            reason=f"provider 'plugin': {words}{ending}",
            providers=("plugin",),
        )


def test_a_failure_counts_for_more_than_an_answer_without_a_credential() -> None:
    broken = ScriptedAgent(PluginExitError("broken", 1), name="broken")
    found = result_of_answer(ScriptedAgent(OTHERS).beside(broken).lookup(IMAGE))
    assert (found.outcome, found.providers) == (DecisionOutcome.FAILED, ("plugin", "broken"))
    assert found.reason.startswith(
        "provider 'plugin': the plugin was run, without a credential for the image"
    )


def test_no_provider_and_a_provider_that_does_not_apply() -> None:
    asked = ScriptedAgent(token_attributes=attributes()).providers
    assert result_of_answer(asked.lookup("other.io/app")).reason == "no provider matches the image"
    assert result_of_answer(asked.lookup(IMAGE)) == DecisionResult(
        outcome=DecisionOutcome.NO_MATCH, source="", reason="provider 'plugin': it needs a service account"
    )


def test_a_failure_has_our_words_and_not_the_plugins() -> None:
    asked = ScriptedAgent(PluginExitError("plugin", 3, "text", "said this word")).providers
    found = result_of_answer(asked.lookup(IMAGE))
    assert found == DecisionResult(
        outcome=DecisionOutcome.FAILED,
        source="",
        reason="provider 'plugin': failed: plugin 'plugin': exited with status 3",
        providers=("plugin",),
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


LOGIN = {"reg.io": AuthConfig(username="u", password="p")}


@pytest.mark.parametrize(
    ("image", "provision", "outcome", "source"),
    [
        ("reg.io/app:v1", {"outcome": ProvisionOutcome.SHARED, "auth": LOGIN}, "answered", "shared"),
        ("else.io/app", {"outcome": ProvisionOutcome.SHARED, "auth": LOGIN}, "no-credential", "shared"),
        ("reg.io/app:v1", {"outcome": ProvisionOutcome.CACHED}, "no-credential", "cache"),
        (
            "reg.io/app:v1",
            {"outcome": ProvisionOutcome.SKIPPED, "skipped": "it lacks an annotation"},
            "no-match",
            "",
        ),
        (
            "reg.io/app:v1",
            {"outcome": ProvisionOutcome.FAILED, "error": PluginExitError("p", 1)},
            "failed",
            "",
        ),
    ],
)
def test_one_provider_that_was_asked_by_name(
    image: str, provision: dict[str, Any], outcome: str, source: str
) -> None:
    found = result_of_provision(Provision(provider="p", **provision), parse_image(image))
    assert (found.outcome, found.source) == (outcome, source)
    assert found.providers == (() if outcome == "no-match" else ("p",))
    assert str(provision.get("skipped", "")) in found.reason


def test_one_provider_that_does_not_match() -> None:
    assert result_of_provision(None, parse_image("reg.io/app")).outcome is DecisionOutcome.NO_MATCH


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
