"""How upstream's provider spaces its attempts: longer than the kubelet waits, and so only for ``--compat``."""

import os

from keyferry.sdk.http import Retry

__all__ = ["PROVIDER_BACKOFF", "ProviderBackoff"]

_STEPS = 65536


class ProviderBackoff(Retry):
    """Waits that grow by upstream's formula."""

    def delay(self, number: int) -> float:
        """Seconds to wait after attempt *number*: 2^n - 1 times the first wait, give or take a fifth."""
        part = int.from_bytes(os.urandom(2), "big") / _STEPS
        return min((2.0**number - 1) * self.first_seconds * (0.8 + 0.4 * part), self.most_seconds)


# Three more attempts, after some 5, 15 and 35 seconds.
PROVIDER_BACKOFF = ProviderBackoff(attempts=4, first_seconds=5.0, most_seconds=60.0)
