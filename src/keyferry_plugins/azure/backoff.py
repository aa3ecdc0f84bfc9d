"""The retry intervals of upstream's provider; they exceed the kubelet's timeout, so only ``--compat`` uses them."""

from __future__ import annotations

import os

from keyferry.sdk.http import Retry

__all__ = ["PROVIDER_BACKOFF", "ProviderBackoff"]

_STEPS = 65536


class ProviderBackoff(Retry):
    """Intervals that grow by upstream's formula."""

    def delay(self, number: int) -> float:
        """Return the seconds to wait after attempt *number*: 2^n - 1 times the first interval, within 20 percent."""
        part = int.from_bytes(os.urandom(2), "big") / _STEPS
        return min((2.0**number - 1) * self.first_seconds * (0.8 + 0.4 * part), self.most_seconds)


# Three more attempts, after about 5, 15 and 35 seconds.
PROVIDER_BACKOFF = ProviderBackoff(attempts=4, first_seconds=5.0, most_seconds=60.0)
