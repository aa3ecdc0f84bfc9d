"""The steps of a pull: the back-off, and the errors with the kubelet's texts."""

from __future__ import annotations

from keyferry.errors import ContainerRuntimeError, EnvironmentProblem, Kind
from keyferry.pulls.operation import BackOff, pull_error
from keyferry.pulls.trial import Attempt
from support.plugins import SteppedClock
from support.pulling import refusal

KEY, OTHER = ("pod", "image"), ("another pod", "image")
ERROR = EnvironmentProblem("no")


def test_each_failure_doubles_the_wait_up_to_five_minutes() -> None:
    """10 seconds first; others do not wait."""
    clock = SteppedClock()
    back_off = BackOff(clock=clock)
    assert back_off.seconds_left(KEY) == 0
    waits = []
    for _ in range(7):
        back_off.fail(KEY, ERROR)
        waits.append(back_off.seconds_left(KEY))
        clock.step(waits[-1])
        assert back_off.seconds_left(KEY) == 0
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert back_off.seconds_left(OTHER) == 0


def test_a_wait_is_over_at_its_end_and_not_before() -> None:
    """To the nanosecond."""
    clock = SteppedClock()
    back_off = BackOff(clock=clock)
    back_off.fail(KEY, ERROR)
    clock.now_ns += 10_000_000_000 - 1
    assert back_off.seconds_left(KEY) > 0
    clock.now_ns += 1
    assert back_off.seconds_left(KEY) == 0


def test_twice_the_longest_wait_without_a_failure_begins_anew() -> None:
    """At that very time the old wait still counts."""
    clock = SteppedClock()
    for seconds, expected in ((600, 20), (600.000000001, 10)):
        back_off = BackOff(clock=clock)
        back_off.fail(KEY, ERROR)
        clock.step(seconds)
        back_off.fail(KEY, ERROR)
        assert back_off.seconds_left(KEY) == expected


def test_what_a_pull_came_to_is_known_until_the_next_is_begun() -> None:
    """The wait itself is not changed by that."""
    clock = SteppedClock()
    back_off = BackOff(clock=clock)
    back_off.begin(KEY)
    assert back_off.last_error(KEY) is None
    back_off.fail(KEY, ERROR)
    assert back_off.last_error(KEY) is ERROR
    back_off.begin(KEY)
    assert back_off.last_error(KEY) is None
    assert back_off.seconds_left(KEY) == 10


def test_sweeping_forgets_only_what_is_old() -> None:
    """Memory does not grow with every image that ever failed."""
    clock = SteppedClock()
    back_off = BackOff(clock=clock)
    back_off.fail(KEY, ERROR)
    clock.step(601)
    back_off.fail(OTHER, ERROR)
    back_off.sweep()
    assert back_off.last_error(KEY) is None
    assert back_off.last_error(OTHER) is ERROR


IMAGE, NAME = "reg.io/team/app:v1", "reg.io/team/app"


def test_what_says_more_than_a_refusal_is_the_cause() -> None:
    """One credential was refused, the other came further: the image is not there."""
    missing = ContainerRuntimeError("s", "NOT_FOUND", "x: not found", Kind.NOT_FOUND)
    attempts = tuple(Attempt(credential=None, error=error) for error in (refusal(), missing, refusal()))
    error = pull_error(IMAGE, attempts)
    assert error.kind == "not-found"
    assert error.kubernetes_text == "[401 Unauthorized, rpc error: code = NotFound desc = x: not found]"
    assert pull_error(IMAGE, attempts[:1]).kind == "refused"
