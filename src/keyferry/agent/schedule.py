"""When cached answers are renewed: pure functions and a plan, on a given clock and source of random numbers.

An answer is renewed at a random instant between 50 and 90 % of its life, so that nodes that started together do not
ask together. A renewal that fails is tried again after a random pause of up to twice the last one; the valid answer
goes on being served meanwhile. An answer that nobody has asked for in a long time is left to expire.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from keyferry._core.values import Value

__all__ = ["PlannedRefresh", "RefreshPlan", "asked_pause_ns", "pause_ns", "refresh_at_ns"]

_SECOND = 1_000_000_000
_EARLIEST, _LATEST = 0.5, 0.9
# Shorter answers are not worth a run that nobody waits for.
SHORTEST_LIFE_NS = 60 * _SECOND
FIRST_PAUSE_NS = _SECOND
LONGEST_PAUSE_NS = 300 * _SECOND
LONGEST_ASKED_NS = 3600 * _SECOND
_ASKED = "retry after "
_MOST_DIGITS = 9

# Returns a number from 0 up to, but not including, 1.
Random = Callable[[], float]


def refresh_at_ns(got_ns: int, expires_ns: int, random: Random) -> int:
    """Return when to renew an answer that was got and expires at these instants: at 50 to 90 % of its life."""
    share = _EARLIEST + (_LATEST - _EARLIEST) * random()
    return got_ns + int((expires_ns - got_ns) * share)


def pause_ns(failures: int, random: Random, retry_after_ns: int = 0) -> int:
    """Return the pause after so many failures in a row: random, up to a limit that doubles (full jitter).

    It is added to *retry_after_ns*, the pause that a server asked for.
    """
    # The exponent is limited before the power is computed, which would otherwise become huge.
    limit = min(FIRST_PAUSE_NS << min(failures, 20), LONGEST_PAUSE_NS)
    return retry_after_ns + int(limit * random())


def asked_pause_ns(stderr_tail: str) -> int:
    """Return the pause that the last line of a plugin's standard error asks for, ``NAME: retry after 30 s``; or 0.

    Plugins made with the SDK write it where a server sent Retry-After. It is at most an hour.
    """
    name, colon, rest = stderr_tail.rpartition("\n")[2].partition(": ")
    number = rest.removeprefix(_ASKED).removesuffix(" s")
    is_asked = name and colon and rest == f"{_ASKED}{number} s" and number.isascii() and number.isdigit()
    if not is_asked or len(number) > _MOST_DIGITS:
        return 0
    return min(int(number) * _SECOND, LONGEST_ASKED_NS)


class PlannedRefresh(Value):
    """A renewal: of which provider, for which image, and the part of the cache key that the answer has."""

    provider: str
    base: str
    image: str


class _Entry:
    __slots__ = ("at_ns", "expires_ns", "failures", "refresh", "used_ns")

    def __init__(self, refresh: PlannedRefresh, at_ns: int, expires_ns: int, used_ns: int) -> None:
        self.refresh = refresh
        self.at_ns = at_ns
        self.expires_ns = expires_ns
        self.used_ns = used_ns
        self.failures = 0


class RefreshPlan:
    """The next renewal of each cached answer; not thread-safe.

    It follows the cache: every answer that is cached is noted, and one that was not asked for within *idle_ns* is
    renewed no more.
    """

    def __init__(self, random: Random, idle_ns: int) -> None:
        self._random = random
        self.idle_ns = idle_ns
        self._entries: dict[tuple[str, str], _Entry] = {}
        # Instants and keys; an item whose instant is not the entry's own is outdated.
        self._queue: list[tuple[int, str, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, refresh: PlannedRefresh, expires_ns: int, now_ns: int) -> None:
        """Plan the renewal of an answer that was cached now; an answer with a short life is not renewed."""
        key = (refresh.provider, refresh.base)
        before = self._entries.pop(key, None)
        if expires_ns - now_ns < SHORTEST_LIFE_NS:
            return
        at_ns = refresh_at_ns(now_ns, expires_ns, self._random)
        used_ns = now_ns if before is None else before.used_ns
        self._add(_Entry(refresh, at_ns, expires_ns, used_ns))

    def use(self, provider: str, base: str, now_ns: int) -> None:
        """Remember that somebody asked for an answer."""
        entry = self._entries.get((provider, base))
        if entry is not None:
            entry.used_ns = now_ns

    def fail(self, refresh: PlannedRefresh, now_ns: int, retry_after_ns: int = 0) -> None:
        """Plan another attempt after a pause, unless the answer expires before it."""
        entry = self._entries.pop((refresh.provider, refresh.base), None)
        if entry is None:
            return
        entry.at_ns = now_ns + pause_ns(entry.failures, self._random, retry_after_ns)
        entry.failures += 1
        if entry.at_ns < entry.expires_ns:
            self._add(entry)

    def finish(self, refresh: PlannedRefresh, now_ns: int) -> None:
        """End a renewal that succeeded: if its response was not cached, nothing is left to renew."""
        key = (refresh.provider, refresh.base)
        entry = self._entries.get(key)
        if entry is not None and entry.at_ns <= now_ns:
            del self._entries[key]

    def take_due(self, now_ns: int) -> PlannedRefresh | None:
        """Return the next renewal that is due, or None; the caller reports its failure, or notes the new answer."""
        while self._queue and self._queue[0][0] <= now_ns:
            at_ns, provider, base = heappop(self._queue)
            entry = self._entries.get((provider, base))
            if entry is None or entry.at_ns != at_ns:
                continue
            if entry.expires_ns <= now_ns or now_ns - entry.used_ns > self.idle_ns:
                del self._entries[provider, base]
                continue
            return entry.refresh
        return None

    def next_ns(self) -> int | None:
        """Return the instant of the next renewal, or None; it may be too early."""
        return self._queue[0][0] if self._queue else None

    def upcoming(self) -> list[tuple[int, PlannedRefresh, int]]:
        """Return all renewals in order: the instant, the renewal, and its failures in a row; from any thread."""
        # The copy is made at once, whatever other threads do.
        entries = list(self._entries.values())
        found = [(entry.at_ns, entry.refresh, entry.failures) for entry in entries]
        return sorted(found, key=lambda each: (each[0], each[1].provider, each[1].base))

    def instants(self) -> list[tuple[str, int]]:
        """Return the provider and the instant of every renewal, in no order."""
        return [(provider, entry.at_ns) for (provider, _), entry in self._entries.items()]

    def forget(self, providers: frozenset[str]) -> None:
        """Drop the renewals of providers that exist no more."""
        for key in [key for key in self._entries if key[0] in providers]:
            del self._entries[key]

    def _add(self, entry: _Entry) -> None:
        key = (entry.refresh.provider, entry.refresh.base)
        self._entries[key] = entry
        heappush(self._queue, (entry.at_ns, *key))
        # Outdated items are dropped once they are the greater part.
        if len(self._queue) > 2 * len(self._entries) + 64:
            self._queue = sorted((each.at_ns, *place) for place, each in self._entries.items())
