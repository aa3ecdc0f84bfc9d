"""The image plugin's settings, hosts and docker configs, as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.sdk.flags import parse_flags
from keyferry_plugins.gcr import FLAGS
from keyferry_plugins.google.pull import PullSettings, kept_seconds, read_settings


@pytest.mark.parametrize(
    ("life", "kept"), [(3599, 3299), (601, 301), (600, 300), (400, 200), (1, 0), (0, 0), (-50, 0)]
)
def test_a_token_is_kept_with_a_margin(life: float, kept: float) -> None:
    """Five minutes, or half of what is left where that is little."""
    assert kept_seconds(PullSettings(), 1000.0 + life, 1000.0) == kept


@given(st.floats(0, 1e6), st.none() | st.floats(0, 1e6))
def test_no_token_is_kept_to_its_end(life: float, asked: float | None) -> None:
    """Whatever is asked for, in whole seconds below half a day or in years."""
    kept = kept_seconds(PullSettings(seconds=asked), 1000.0 + life, 1000.0)
    assert 0 <= kept <= life / 2 or kept <= life - 299
    assert asked is None or kept <= asked


def test_a_token_of_unknown_life_is_not_kept() -> None:
    """It may be over any time."""
    assert kept_seconds(PullSettings(seconds=600), None, 1000.0) == 0


def test_settings_of_upstream_are_understood() -> None:
    """Flags with one dash or two, klog's among them."""
    flags = parse_flags(
        FLAGS, ["get-credentials", "-a", "dockercfg", "--v=3", "--logtostderr", "--project-id", "p"]
    )
    settings = read_settings(
        flags, {"KUBE_SIDECAR_CACHE_TYPE": "global", "KUBE_SIDECAR_CACHE_DURATION": "1h30m"}
    )
    assert settings == PullSettings(
        flow="dockercfg", identity_provider="", project="p", key_type="Global", seconds=5400.0
    )
