"""Opening records: what is checked, and what is said if there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem, PolicyError
from keyferry.pulls.records.records import inspect_records, load_records
from support.records import IMAGE, REF


def test_a_missing_folder_says_where_records_are(tmp_path: Path) -> None:
    """Looking at nothing is an error with a way out."""
    with pytest.raises(EnvironmentProblem, match="--root"):
        inspect_records(str(tmp_path))


def test_the_door_checks_the_policy(tmp_path: Path) -> None:
    """A policy that makes no sense is refused before anything is made."""
    with pytest.raises(PolicyError):
        load_records(str(tmp_path), policy="Sometimes")
    assert list(tmp_path.iterdir()) == []
    records = load_records(str(tmp_path), policy="NeverVerifyAllowlistedImages", allowlist=["reg.example/*"])
    assert not records.decide(IMAGE, REF).must_pull
