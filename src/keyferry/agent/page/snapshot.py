"""What the page is made of, taken at one instant in the event loop; the rest is done in another thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from keyferry._core.clock import monotonic_ns
from keyferry._core.values import Value
from keyferry.agent.journal import Journal, JournalEntry
from keyferry.agent.refresher import Refresher
from keyferry.agent.reload import Reloader, ReloadOutcome
from keyferry.agent.schedule import PlannedRefresh
from keyferry.agent.state import AgentState
from keyferry.agent.usage import CallerUsage, Usage

__all__ = ["PageSnapshot", "PageSource"]

_SECOND = 1_000_000_000


class PageSnapshot(Value):
    """The agent at one instant, which is *now* in seconds since 1970 and *now_ns* on the monotonic clock.

    What takes long to collect and may be read from any thread is read later.
    """

    state: AgentState
    node: str  # the name of the machine
    now: float
    now_ns: int
    started: float
    socket: str
    taken_over_at: float | None
    is_refreshing: bool
    upcoming: Callable[[], list[tuple[int, PlannedRefresh, int]]]
    reloads: tuple[ReloadOutcome, ...]
    users: dict[int, CallerUsage]
    entries: tuple[JournalEntry, ...]
    entries_total: int
    last_of_user: dict[int, JournalEntry]
    accounts: tuple[str, ...]
    socket_options: tuple[str, ...] = ()

    def wall(self, instant_ns: int) -> float:
        """Return an instant of the monotonic clock in seconds since 1970."""
        return self.now + (instant_ns - self.now_ns) / _SECOND


class PageSource:
    """Takes snapshots of the agent; *sockets* and *taken_over_at* tell what only its process knows."""

    def __init__(
        self,
        reloader: Reloader,
        refresher: Refresher,
        usage: Usage,
        journal: Journal,
        *,
        sockets: Callable[[], list[str]],
        taken_over_at: Callable[[], float | None],
    ) -> None:
        self._reloader = reloader
        self._refresher = refresher
        self._usage = usage
        self._journal = journal
        self._sockets = sockets
        self._taken_over_at = taken_over_at
        self._started = time.time()

    @property
    def state(self) -> AgentState:
        """The state in force."""
        return self._reloader.state

    @property
    def socket_options(self) -> tuple[str, ...]:
        """The options with which other commands reach this agent."""
        sockets = self._sockets()
        return self.state.settings.socket_options(sockets[0]) if sockets else ()

    def take(self) -> PageSnapshot:
        """Return the agent at this instant."""
        users = self._usage.users()
        last = {uid: self._journal.last_of(uid) for uid in users}
        return PageSnapshot(
            state=self._reloader.state,
            node=os.uname().nodename,
            now=time.time(),
            now_ns=monotonic_ns(),
            started=self._started,
            socket=" ".join(self._sockets()),
            taken_over_at=self._taken_over_at(),
            is_refreshing=self._refresher.is_on,
            upcoming=self._refresher.plan.upcoming,
            reloads=tuple(self._reloader.history),
            users=users,
            entries=tuple(self._journal.newest_first()),
            entries_total=self._journal.number,
            last_of_user={uid: entry for uid, entry in last.items() if entry is not None},
            accounts=tuple(self._journal.accounts()),
            socket_options=self.socket_options,
        )
