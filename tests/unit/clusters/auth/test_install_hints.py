"""Help for a missing plugin is shown ten times an hour."""

from __future__ import annotations

from keyferry.clusters.auth.install_hints import HintLimiter, not_found_text
from support.plugins import SteppedClock


def test_ten_times_within_an_hour() -> None:
    clock = SteppedClock()
    limiter = HintLimiter(clock=clock)
    assert [limiter.take() for _ in range(12)] == [True] * 10 + [False] * 2
    clock.now_ns += 3600 * 10**9 - 1
    assert not limiter.take()
    clock.now_ns += 1
    assert [limiter.take() for _ in range(11)] == [True] * 10 + [False]


def test_the_hour_begins_with_the_first_time() -> None:
    clock = SteppedClock()
    limiter = HintLimiter(most=1, clock=clock)
    clock.step(5000)
    assert limiter.take()
    clock.step(3599)
    assert not limiter.take()
    clock.step(1)
    assert limiter.take()


def test_the_hint_follows_the_help() -> None:
    bare = not_found_text("x", "hint", with_help=False)
    assert bare == "exec: executable x not found"
    assert not_found_text("x", "hint", with_help=True).endswith("#client-go-credential-plugins\n\nhint")
    assert not_found_text("x", "", with_help=True).endswith("#client-go-credential-plugins")
