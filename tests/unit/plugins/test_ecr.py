"""How long a login to ECR may be kept."""

from __future__ import annotations

import pytest

from keyferry_plugins.aws.registry import RegistryLogin
from keyferry_plugins.ecr import cache_seconds

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("left", "seconds", "compat"),
    [
        (None, 0, 0),
        (43_200, 21_600, 21_600),
        (43_199.9, 21_599, 21_599),
        (2, 1, 1),
        (1.9, 0, None),
        (0, 0, None),
        (-1000, 0, None),
        (1e9, 21_600, 500_000_000),
    ],
)
def test_a_login_is_kept_for_half_its_life(left: float | None, seconds: int, compat: int | None) -> None:
    """A dead login is never to be cached; upstream leaves that to the config's default."""
    login = RegistryLogin("AWS", "x", None if left is None else NOW + left)
    assert cache_seconds(login, NOW) == seconds
    assert cache_seconds(login, NOW, is_compat=True) == compat
