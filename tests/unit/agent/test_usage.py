"""Counts of callers are bounded, and each user's evictions limited."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyferry.agent.access import EvictionLimit
from keyferry.agent.journal import Usage


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
