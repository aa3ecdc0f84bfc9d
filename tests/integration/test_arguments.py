"""A programmer's mistake is a ValueError, raised before anything is done."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import keyferry
from support.pulling import FakeTarget


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_a_time_limit_that_leaves_no_time_is_a_mistake(seconds: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"timeout_seconds is .*, expected more than 0"):
        keyferry.load_providers(tmp_path / "c.yaml", tmp_path, timeout_seconds=seconds)
    with pytest.raises(ValueError, match=r"timeout_seconds is .*, expected more than 0"):
        keyferry.load_cluster(kubeconfig=tmp_path / "kubeconfig", timeout_seconds=seconds)
    with pytest.raises(ValueError, match=r"timeout_seconds is .*, expected more than 0"):
        keyferry.check_registry("reg.io/app", timeout_seconds=seconds)


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_of_pulls_that_lets_none_run_is_a_mistake(number: int) -> None:
    with pytest.raises(ValueError, match=r"max_parallel is .*, expected 1 or more"):
        keyferry.Puller(FakeTarget(), max_parallel=number)
