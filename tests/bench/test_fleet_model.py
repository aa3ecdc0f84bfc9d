"""A simulated fleet obeys its arithmetic."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from bench.fleet_model import (
    LIFE_NS,
    PODS,
    RUN_NS,
    SECOND,
    UNLIMITED,
    Endpoint,
    Fleet,
    FourFifths,
    HalfLife,
    Keyferry,
    Never,
    Quota,
)
from hypothesis import given
from hypothesis import strategies as st

from keyferry.agent.refresh import PlannedRefresh

HOUR = 3600
NODES = 300
RULES = [Never, FourFifths, HalfLife, Keyferry]


def booted(rule: type[Never | FourFifths | HalfLife | Keyferry], quota: Quota, hours: int = 13) -> Fleet:
    """A fleet that booted within a minute, some hours later."""
    fleet = Fleet(NODES, rule, Endpoint(quota, hours * HOUR))
    fleet.boot(60)
    fleet.run()
    return fleet


@given(
    st.integers(1, 50),
    st.integers(1, 100),
    st.lists(st.integers(0, SECOND // 2), min_size=1, max_size=300),
)
def test_the_endpoint_answers_its_rate_and_its_burst(rate: int, burst: int, gaps: list[int]) -> None:
    """Between any two requests no more than the burst and what has come in since; a rest fills the bucket."""
    endpoint = Endpoint(Quota(rate, burst), 400)
    now, answered = 0, []
    for gap in gaps:
        now += gap
        if endpoint.ask(now):
            answered.append(now)
    assert sum(endpoint.asked) == len(gaps)
    assert sum(endpoint.asked) - sum(endpoint.throttled) == len(answered)
    assert all(refused <= asked for refused, asked in zip(endpoint.throttled, endpoint.asked, strict=True))
    for number, start in enumerate(answered):
        for later, end in enumerate(answered[number:], 1):
            assert later <= burst + (end - start) / SECOND * rate + 1
    assert len(answered) >= min(burst, len(gaps))


@pytest.mark.parametrize("rule", RULES)
def test_every_node_gets_a_credential(rule: type[Never | FourFifths | HalfLife | Keyferry]) -> None:
    """With one request for a node; the kubelet asks once for each pod. Without a limit no pull fails."""
    fleet = booted(rule, UNLIMITED)
    assert sum(fleet.endpoint.asked[:60]) == NODES * (PODS if rule is Never else 1)
    assert fleet.complete_at_ns is not None
    assert 50 * SECOND < fleet.complete_at_ns <= 60 * SECOND + RUN_NS
    assert sum(fleet.failed_pulls) == sum(fleet.endpoint.throttled) == 0


@pytest.mark.parametrize(
    ("rule", "earliest", "latest"), [(FourFifths, 0.8, 0.8003), (HalfLife, 0.45, 0.55), (Keyferry, 0.5, 0.9)]
)
def test_renewals_come_when_the_rule_says(
    rule: type[FourFifths | HalfLife | Keyferry], earliest: float, latest: float
) -> None:
    """Each node renews once in the part of the life that the rule names, and none outside of it."""
    asked = booted(rule, UNLIMITED, 11).endpoint.asked
    life = LIFE_NS // SECOND
    start, end = int(life * earliest), int(life * latest) + 61
    assert sum(asked[60:start]) == 0
    assert sum(asked[start:end]) == NODES


def test_a_throttled_boot_ends_and_every_refusal_is_a_failed_pull() -> None:
    """The endpoint is busy all the time, as long as nodes wait."""
    fleet = booted(Keyferry, Quota(1, 5), 2)
    endpoint = fleet.endpoint
    assert fleet.complete_at_ns is not None
    assert fleet.complete_at_ns > (NODES - 5) * SECOND
    assert sum(endpoint.asked) - sum(endpoint.throttled) == NODES
    assert sum(fleet.failed_pulls) == sum(endpoint.throttled) > NODES


@pytest.mark.parametrize("rule", [Never, Keyferry])
def test_a_short_cut_changes_nothing(rule: type[Never | Keyferry]) -> None:
    """A refusal leaves no trace in a provider, so that it need not be asked when the endpoint has nothing left."""
    records = []
    for is_thorough in (False, True):
        fleet = Fleet(60, rule, Endpoint(Quota(1, 2), HOUR), is_thorough=is_thorough)
        fleet.boot(10)
        fleet.run()
        records.append(
            (fleet.endpoint.asked, fleet.endpoint.throttled, fleet.failed_pulls, fleet.complete_at_ns)
        )
    assert records[0] == records[1]


def test_valid_credentials_outlive_failed_renewals() -> None:
    """An endpoint that refuses for an hour in the middle of the renewals costs no pull."""
    endpoint = Endpoint(UNLIMITED, 12 * HOUR)
    fleet = Fleet(NODES, Keyferry, endpoint)
    fleet.boot(60)
    refuse = endpoint.is_empty

    def is_empty(now_ns: int) -> bool:
        return 7 * HOUR * SECOND <= now_ns < 8 * HOUR * SECOND or refuse(now_ns)

    endpoint.is_empty = is_empty  # type: ignore[method-assign] # an outage
    fleet.run()
    assert sum(endpoint.throttled) > 100
    assert sum(endpoint.throttled[: 7 * HOUR]) == sum(endpoint.throttled[8 * HOUR :]) == 0
    assert sum(fleet.failed_pulls) == 0


def restarted(*, hands_over: bool) -> Fleet:
    fleet = Fleet(NODES, Keyferry, Endpoint(UNLIMITED, 3 * HOUR))
    fleet.boot(60)
    fleet.restart(HOUR, 600, hands_over=hands_over)
    fleet.run()
    return fleet


def test_a_rollout_without_hand_over_asks_for_every_node_again() -> None:
    """As soon as it pulls; with a hand-over nobody asks."""
    assert sum(restarted(hands_over=True).endpoint.asked[HOUR:]) == 0
    without = sum(restarted(hands_over=False).endpoint.asked[HOUR:])
    assert NODES * 0.95 < without <= NODES


def test_the_same_seed_gives_the_same_record() -> None:
    first, second = booted(Keyferry, Quota(1, 5), 2), booted(Keyferry, Quota(1, 5), 2)
    assert first.endpoint.asked == second.endpoint.asked
    assert first.failed_pulls == second.failed_pulls


def test_pods_that_waited_for_a_run_that_failed_ask_for_themselves() -> None:
    """All of them at the same time, so that the answer for one of them serves no other."""
    endpoint = Endpoint(UNLIMITED, HOUR)
    fleet = Fleet(1, Keyferry, endpoint, is_thorough=True)
    fleet.boot(1)

    def is_empty(now_ns: int) -> bool:
        """The first request is refused, all later ones are answered."""
        return not sum(endpoint.asked[: now_ns // SECOND + 1])

    endpoint.is_empty = is_empty  # type: ignore[method-assign] # an outage
    fleet.run()
    assert sum(endpoint.asked[:2]) == PODS
    assert sum(endpoint.throttled) == sum(fleet.failed_pulls) == 1


@pytest.mark.parametrize("rule", [FourFifths, HalfLife])
def test_a_rule_gives_up_when_the_answer_expires(rule: type[FourFifths | HalfLife]) -> None:
    """Pauses do not shrink but for their jitter, and the last attempt is before the end."""
    renewals = rule(Random(3))  # noqa: S311 - the same numbers in every run
    refresh = PlannedRefresh(provider="p", base="b", image="i")
    renewals.note(refresh, LIFE_NS, 0)
    instants = []
    while (at_ns := renewals.next_ns()) is not None:
        due = renewals.take_due(at_ns)
        if due is not None:
            instants.append(at_ns)
            renewals.fail(due, at_ns)
    assert len(instants) > 10
    assert instants[-1] < LIFE_NS
    assert all(5 <= (later - earlier) / SECOND * 1.12 <= 150 for earlier, later in pairwise(instants))
