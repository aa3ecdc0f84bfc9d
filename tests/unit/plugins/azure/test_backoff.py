"""The waits of upstream's provider."""

from __future__ import annotations

from keyferry_plugins.azure.backoff import PROVIDER_BACKOFF


def test_waits_grow_as_upstreams_do() -> None:
    """Some 5, 15 and 35 seconds, and then no more attempts."""
    assert PROVIDER_BACKOFF.attempts == 4
    for number, full in ((1, 5.0), (2, 15.0), (3, 35.0)):
        assert all(0.8 * full <= PROVIDER_BACKOFF.delay(number) <= 1.2 * full for _ in range(50))
    assert PROVIDER_BACKOFF.delay(9) == 60.0
