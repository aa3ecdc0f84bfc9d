"""The arithmetic of the load: percentiles, requests under way at once, and what makes a part fail."""

from __future__ import annotations

import pytest
from bench.agent_clients import Outcome
from bench.agent_load import Part, most_at_once, percentile


@pytest.mark.parametrize(("share", "found"), [(0, 1.0), (50, 6.0), (99, 10.0), (99.9, 10.0), (100, 10.0)])
def test_a_percentile_is_one_of_the_figures(share: float, found: float) -> None:
    assert percentile([float(each) for each in range(1, 11)], share) == found
    assert percentile([], share) == 0.0


@pytest.mark.parametrize(
    ("spans", "most"),
    [
        ([], 0),
        ([(0.0, 1.0)], 1),
        ([(0.0, 1.0), (1.0, 2.0)], 1),
        ([(0.0, 2.0), (1.0, 3.0), (2.5, 4.0)], 2),
        ([(0.0, 9.0)] * 64, 64),
    ],
)
def test_requests_are_under_way_from_when_they_are_sent_until_they_are_answered(
    spans: list[tuple[float, float]], most: int
) -> None:
    assert most_at_once(spans) == most


def test_a_part_adds_up_its_clients() -> None:
    one = Outcome(spans=[(0.0, 0.5), (1.0, 1.5)], late=[0.5, 0.5], fell_back=1)
    two = Outcome(spans=[(0.2, 0.3)], late=[0.1], errors=["another credential"])
    part = Part("p", [one, two])
    assert part.cells() == ("p", "3", "1", "1", "2", "500.0 ms", "500.0 ms", "500.0 ms")
    assert (part.requests, part.errors) == (3, ["another credential"])
