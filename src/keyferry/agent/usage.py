"""Who asked how often, and how often users may evict."""

from __future__ import annotations

from math import ceil

from keyferry._core.values import Value

__all__ = ["CallerUsage", "EvictionLimit", "Usage"]

_MOST_USERS = 256
_OTHERS = -1
# Evictions at once, and then one in so many seconds.
_BURST = 10
_PER_EVICTION_SECONDS = 3.0


class CallerUsage(Value):
    """The requests of one user: all, those refused, and the time of the last one, in seconds since 1970."""

    requests: int
    refused: int
    last_at: float


class Usage:
    """Counts requests by user and by status; users beyond a number are counted together, as -1."""

    def __init__(self) -> None:
        self.by_status: dict[int, int] = {}
        # Lookups that were refused since too many of the same user waited.
        self.too_many_lookups = 0
        self._by_user: dict[int, list[float]] = {}

    def count(self, uid: int, status: int, at: float) -> None:
        """Count one request, answered at this instant in seconds since 1970."""
        self.by_status[status] = self.by_status.get(status, 0) + 1
        own = self._by_user.get(uid)
        if own is None:
            if len(self._by_user) >= _MOST_USERS:
                uid = _OTHERS
            own = self._by_user.setdefault(uid, [0, 0, 0.0])
        own[0] += 1
        own[1] += status in (403, 429)
        own[2] = at

    def users(self) -> dict[int, CallerUsage]:
        """Return the counts of every user."""
        return {
            uid: CallerUsage(requests=int(own[0]), refused=int(own[1]), last_at=own[2])
            for uid, own in self._by_user.items()
        }


class EvictionLimit:
    """A limit for each user: every eviction may cause a plugin run."""

    def __init__(self) -> None:
        # For each user, the instant at which all its evictions are forgotten.
        self._free_at: dict[int, float] = {}

    def wait_seconds(self, uid: int, now: float) -> int:
        """Count an eviction and return 0, or return the seconds until the next one is allowed."""
        free_at = max(self._free_at.get(uid, now), now)
        excess = free_at - now - (_BURST - 1) * _PER_EVICTION_SECONDS
        if excess > 0:
            return ceil(excess)
        if len(self._free_at) >= _MOST_USERS and uid not in self._free_at:
            self._free_at = {each: at for each, at in self._free_at.items() if at > now}
        self._free_at[uid] = free_at + _PER_EVICTION_SECONDS
        return 0
