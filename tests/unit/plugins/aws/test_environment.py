"""What variables and profiles say: region, profile, attempts and timeouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.aws.environment import Environment, read_seconds


def environment(**variables: str) -> Environment:
    """Settings from *variables* alone."""
    return Environment({"HOME": "/nowhere", **variables}, Deadline(5))


def test_the_region_is_found_in_order(tmp_path: Path) -> None:
    """Flag, AWS_REGION, AWS_DEFAULT_REGION, profile."""
    config = tmp_path / "config"
    config.write_text("[default]\nregion = filed-1\n")
    told = {"AWS_CONFIG_FILE": str(config), "AWS_DEFAULT_REGION": "default-1", "AWS_REGION": "first-1"}
    assert Environment(told, Deadline(5), region="flag-1").find_region() == "flag-1"
    assert environment(**told).find_region() == "first-1"
    assert environment(**told).find_region(reads_aws_region=False) == "default-1"
    assert environment(AWS_CONFIG_FILE=str(config)).find_region() == "filed-1"
    assert not environment().find_region()


def test_a_profile_that_is_asked_for_must_exist(tmp_path: Path) -> None:
    """AWS_PROFILE with a name that is nowhere is an error, the default profile may be missing."""
    environment = Environment({"HOME": str(tmp_path), "AWS_PROFILE": "gone"}, Deadline(5))
    with pytest.raises(ProvideError, match=r"the AWS profile 'gone' is in neither .*; check AWS_PROFILE"):
        environment.profile_text("region")
    assert not Environment({"HOME": str(tmp_path)}, Deadline(5)).profile_text("region")


def test_the_profile_in_use_is_found_in_order() -> None:
    """Flag, AWS_PROFILE, AWS_DEFAULT_PROFILE, default."""
    told = {"AWS_PROFILE": "first", "AWS_DEFAULT_PROFILE": "second"}
    assert Environment(told, Deadline(5), profile="flag").profile_name == "flag"
    assert Environment(told, Deadline(5)).profile_name == "first"
    assert Environment({"AWS_DEFAULT_PROFILE": "second"}, Deadline(5)).profile_name == "second"
    assert Environment({}, Deadline(5)).profile_name == "default"


def test_attempts_are_a_number() -> None:
    """AWS_MAX_ATTEMPTS is taken, bounded, and refused if it is no number."""
    assert Environment({"HOME": "/nowhere"}, Deadline(5)).attempts() == 3
    assert Environment({"HOME": "/nowhere", "AWS_MAX_ATTEMPTS": "7"}, Deadline(5)).attempts() == 7
    assert Environment({"HOME": "/nowhere", "AWS_MAX_ATTEMPTS": "0"}, Deadline(5)).attempts() == 1000
    with pytest.raises(ProvideError, match="found 'many', expected a number"):
        Environment({"HOME": "/nowhere", "AWS_MAX_ATTEMPTS": "many"}, Deadline(5)).attempts()


def test_a_timeout_is_a_duration() -> None:
    """Go's durations are taken, and nothing below or at zero."""
    assert read_seconds("1m30s") == 90
    for wrong in ("", "5", "0s", "-1s", "soon"):
        with pytest.raises(ProvideError, match="--timeout"):
            read_seconds(wrong)
