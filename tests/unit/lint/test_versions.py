"""Versions of Kubernetes that a file is linted for."""

import pytest

from keyferry.lint.versions import rules_for


@pytest.mark.parametrize(
    ("version", "part"),
    [
        ("1.25", "exists since 1.26"),
        ("1.38", "latest known version is 1.37"),
        ("2", "not a Kubernetes version"),
        ("", "not"),
    ],
)
def test_unknown_versions_are_refused(version: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        rules_for(version, {})
