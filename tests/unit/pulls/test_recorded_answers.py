"""The recorded answers once more, compared exactly: nothing beside what Kubernetes has may be left in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.run import load_cases
from conformance.topics import TOPICS

VECTORS = Path(__file__).resolve().parents[2] / "conformance" / "vectors"


def without_errors(value: object) -> object:
    """All but the texts of errors, which have a comparison of their own."""
    if isinstance(value, dict):
        return {key: without_errors(item) for key, item in value.items() if "error" not in key}
    return [without_errors(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("topic", ["pull_records", "pull_decisions"])
def test_state_is_exactly_the_recorded_one(topic: str) -> None:
    """No file, record, entry or secret is there beside the recorded ones."""
    _, cases = load_cases(VECTORS / f"{topic}.json")
    differing = [case["name"] for case in cases if not is_exact(topic, case)]
    assert cases
    assert not differing


def is_exact(topic: str, case: dict[str, object]) -> bool:
    given = case["input"]
    assert isinstance(given, dict)
    return without_errors(TOPICS[topic](given)) == without_errors(case["want"])
