"""Renewal of cached answers before they expire: when, by a plan, and the runs, a few at a time.

An answer is renewed at a random instant between 50 and 90 % of its life, so that nodes that started together do not
ask together. A renewal that fails is tried again after a random pause of up to twice the last one; the valid answer
goes on being served meanwhile. An answer that nobody has asked for in a long time is left to expire.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from heapq import heappop, heappush

from keyferry._core.clock import monotonic_ns
from keyferry._core.values import Value
from keyferry.agent.log import AgentLog, LogLevel
from keyferry.agent.providers import AgentProviders
from keyferry.errors import PluginExitError
from keyferry.images.provider.cache import CacheEntry
from keyferry.images.provider.provider import Provider

_SECOND = 1_000_000_000
_EARLIEST, _LATEST = 0.5, 0.9
# Shorter answers are not worth a run that nobody waits for.
MIN_LIFE_NS = 60 * _SECOND
FIRST_PAUSE_NS = _SECOND
MAX_PAUSE_NS = 300 * _SECOND
MAX_ASKED_NS = 3600 * _SECOND
_ASKED = "retry after "
_MAX_DIGITS = 9
MAX_AT_ONCE = 4
_MAX_SLEEP_SECONDS = 60.0

# Returns a number from 0 up to, but not including, 1.
Random = Callable[[], float]


def refresh_at_ns(got_ns: int, expires_ns: int, random_number: Random) -> int:
    """Return when to renew an answer that was got and expires at these instants: at 50 to 90 % of its life."""
    share = _EARLIEST + (_LATEST - _EARLIEST) * random_number()
    return got_ns + int((expires_ns - got_ns) * share)


def pause_ns(failures: int, random_number: Random, retry_after_ns: int = 0) -> int:
    """Return the pause after so many failures in a row: random, up to a limit that doubles (full jitter).

    It is added to *retry_after_ns*, the pause that a server asked for.
    """
    # The exponent is limited before the power is computed, which would otherwise become huge.
    limit = min(FIRST_PAUSE_NS << min(failures, 20), MAX_PAUSE_NS)
    return retry_after_ns + int(limit * random_number())


def asked_pause_ns(stderr_tail: str) -> int:
    """Return the pause that the last line of a plugin's standard error asks for, ``NAME: retry after 30 s``; or 0.

    Plugins made with the SDK write it where a server sent Retry-After. It is at most an hour.
    """
    name, colon, rest = stderr_tail.rpartition("\n")[2].partition(": ")
    number = rest.removeprefix(_ASKED).removesuffix(" s")
    is_asked = name and colon and rest == f"{_ASKED}{number} s" and number.isascii() and number.isdigit()
    if not is_asked or len(number) > _MAX_DIGITS:
        return 0
    return min(int(number) * _SECOND, MAX_ASKED_NS)


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

    def __init__(self, random_number: Random, idle_ns: int) -> None:
        self._random_number = random_number
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
        if expires_ns - now_ns < MIN_LIFE_NS:
            return
        at_ns = refresh_at_ns(now_ns, expires_ns, self._random_number)
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
        entry.at_ns = now_ns + pause_ns(entry.failures, self._random_number, retry_after_ns)
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


class Refresher:
    """Follows the caches of providers, which tell it of new answers from any thread."""

    def __init__(
        self,
        log: AgentLog,
        idle_ns: int,
        *,
        clock: Callable[[], int] = monotonic_ns,
        random_number: Random = random.random,
    ) -> None:
        self.plan = RefreshPlan(random_number, idle_ns)
        self.is_on = True
        self.succeeded = 0
        self.failed = 0
        # The same by provider, and whether they succeeded.
        self.outcomes: dict[tuple[str, bool], int] = {}
        self._log = log
        self._clock = clock
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def note(self, provider: Provider, entry: CacheEntry) -> None:
        """Plan the renewal of an answer that was just cached; called by the providers, in any thread."""
        loop = self._loop
        if loop is None:
            self._note(provider, entry)
            return
        try:
            loop.call_soon_threadsafe(self._note, provider, entry)
        except RuntimeError:
            pass  # the loop has ended, and so does this process

    def _note(self, provider: Provider, entry: CacheEntry) -> None:
        planned = PlannedRefresh(provider=provider.name, base=entry.base, image=entry.image)
        self.plan.note(planned, entry.expires_ns, self._clock())
        if self._wake is not None:
            self._wake.set()

    async def run(self, providers: Callable[[], AgentProviders]) -> None:
        """Renew until cancelled; *providers* returns those in force."""
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        running: set[asyncio.Task[None]] = set()
        while True:
            while self.is_on and len(running) < MAX_AT_ONCE:
                due = self.plan.take_due(self._clock())
                if due is None:
                    break
                task = asyncio.create_task(self._refresh(providers(), due))
                running.add(task)
                task.add_done_callback(running.discard)
                task.add_done_callback(lambda _: self._wake.set() if self._wake else None)
            self._wake.clear()
            try:
                # Not wait_for: until Python 3.12 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(self._sleep_seconds(is_full=bool(running))):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _sleep_seconds(self, *, is_full: bool) -> float:
        following = self.plan.next_ns()
        if following is None or not self.is_on or is_full:
            return _MAX_SLEEP_SECONDS
        return min(max((following - self._clock()) / _SECOND, 0.01), _MAX_SLEEP_SECONDS)

    async def _refresh(self, providers: AgentProviders, due: PlannedRefresh) -> None:
        if due.provider not in providers:
            self.plan.forget(frozenset({due.provider}))
            return
        try:
            provision = await providers.refresh_async(due.provider, due.image)
        except Exception as error:  # noqa: BLE001 - one renewal must not end the others, nor be forgotten
            self._fail(due, type(error).__name__)
            return
        # The new answer was noted by a call from another thread; it is handled before what follows.
        await asyncio.sleep(0)
        if provision.error is None:
            self._count(due.provider, is_success=True)
            self.plan.finish(due, self._clock())
            self._log.write(LogLevel.DEBUG, "refreshed", provider=due.provider, image=due.image)
            return
        self._fail(due, provision.error)

    def _count(self, provider: str, *, is_success: bool) -> None:
        self.succeeded += is_success
        self.failed += not is_success
        self.outcomes[provider, is_success] = self.outcomes.get((provider, is_success), 0) + 1

    def _fail(self, due: PlannedRefresh, error: object) -> None:
        self._count(due.provider, is_success=False)
        said = error.stderr_tail if isinstance(error, PluginExitError) else ""
        self.plan.fail(due, self._clock(), asked_pause_ns(said))
        self._log.write(
            LogLevel.WARNING,
            "refresh failed; the cached answer is still served",
            provider=due.provider,
            image=due.image,
            error=error,
        )
