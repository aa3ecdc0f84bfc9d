"""Versions of Kubernetes that a file is linted for."""

from __future__ import annotations

import pytest

from keyferry.lint.versions import is_unknown, rules_for


@pytest.mark.parametrize(
    ("version", "part"),
    [
        ("1.25", "exists since 1.26"),
        ("2", "not a Kubernetes version"),
        ("", "not"),
    ],
)
def test_unknown_versions_are_refused(version: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        rules_for(version, {})


def test_a_version_newer_than_all_known_ones_has_the_rules_of_the_newest() -> None:
    new, known = rules_for("1.38", {}), rules_for("1.37", {})
    assert (new.version, is_unknown("1.38"), is_unknown("v1.37.2")) == ("1.38", True, False)
    assert (new.directory, new.token_attributes, new.cache_type, new.gate) == (
        known.directory,
        known.token_attributes,
        known.cache_type,
        known.gate,
    )
