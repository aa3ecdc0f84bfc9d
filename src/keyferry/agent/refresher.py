"""Renewal of cached answers before they expire: runs what the plan says, a few at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from keyferry._core.clock import monotonic_ns
from keyferry.agent.log import AgentLog, LogLevel
from keyferry.agent.schedule import PlannedRefresh, Random, RefreshPlan, asked_pause_ns
from keyferry.errors import PluginExitError
from keyferry.images.lookup import Providers
from keyferry.images.provider.cache import CacheEntry
from keyferry.images.provider.provider import Provider

__all__ = ["MOST_AT_ONCE", "Refresher"]

_SECOND = 1_000_000_000
MOST_AT_ONCE = 4
_LONGEST_SLEEP_SECONDS = 60.0


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

    async def run(self, providers: Callable[[], Providers]) -> None:
        """Renew until cancelled; *providers* returns those in force."""
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        running: set[asyncio.Task[None]] = set()
        while True:
            while self.is_on and len(running) < MOST_AT_ONCE:
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
            return _LONGEST_SLEEP_SECONDS
        return min(max((following - self._clock()) / _SECOND, 0.01), _LONGEST_SLEEP_SECONDS)

    async def _refresh(self, providers: Providers, due: PlannedRefresh) -> None:
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
