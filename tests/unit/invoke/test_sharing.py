"""Calls under way and those who wait for them."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from keyferry.invoke.sharing import Flight, Flights


def test_a_landed_flight_gives_its_answer_at_once() -> None:
    """Who comes after the landing gets the answer too, as often as asked."""
    flight: Flight[str] = Flight()
    flight.land("answer")
    assert [flight.wait(), flight.wait()] == ["answer", "answer"]


@pytest.mark.parametrize("value", ["answer", None], ids=["with an answer", "without one"])
def test_everyone_who_waits_gets_the_answer(value: str | None) -> None:
    """One landing ends every wait."""
    flight: Flight[str] = Flight()
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(flight.wait) for _ in range(20)]
        assert not any(future.done() for future in waiting)
        flight.land(value)
        assert [future.result(timeout=20) for future in waiting] == [value] * 20


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01])
def test_a_wait_ends_at_its_time(seconds: float) -> None:
    """Who has no time left gives up, and takes the landing from nobody."""
    flight: Flight[str] = Flight()
    with pytest.raises(TimeoutError):
        flight.wait(seconds)
    flight.land("answer")
    assert [flight.wait(seconds), flight.wait(math.inf), flight.wait()] == ["answer"] * 3


def test_a_flight_lands_once() -> None:
    """A second landing is a mistake of the caller's."""
    flight: Flight[str] = Flight()
    flight.land("first")
    with pytest.raises(RuntimeError):
        flight.land("second")


def test_a_flight_is_found_by_each_of_its_keys() -> None:
    """A call under way is known by all keys it was started with, and by no other."""
    flights: Flights[str] = Flights()
    flight = flights.start(("own", "wide"))
    assert flights.find("own") is flight
    assert flights.find("wide") is flight
    assert flights.find("other") is None


def test_a_key_stays_with_the_flight_that_took_it_first() -> None:
    """A second call takes only the keys that are free."""
    flights: Flights[str] = Flights()
    first = flights.start(("a", "wide"))
    second = flights.start(("b", "wide"))
    assert flights.find("wide") is first
    assert flights.find("b") is second


def test_a_finished_flight_is_forgotten() -> None:
    """After the end a call is found by none of its keys."""
    flights: Flights[str] = Flights()
    keys = ("own", "wide")
    flight = flights.start(keys)
    flights.finish(keys, flight)
    assert flights.find("own") is None
    assert flights.find("wide") is None


def test_a_finished_flight_leaves_the_keys_of_others() -> None:
    """The end of one call does not hide another that took the key first."""
    flights: Flights[str] = Flights()
    first = flights.start(("a", "wide"))
    second = flights.start(("b", "wide"))
    flights.finish(("b", "wide"), second)
    assert flights.find("wide") is first
    assert flights.find("b") is None
