"""Who may ask the agent for what: callers by user id and group id, the registries of each, and how often.

A user has no more than a fair part of the threads that run plugins, and few evictions at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from math import ceil

from keyferry._core.values import Value
from keyferry.agent.refresh import MAX_AT_ONCE
from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule
from keyferry.images.lookup import MAX_THREADS
from keyferry.images.match import PatternIndex
from keyferry.lint.kinds.agent_config import OVERFLOW_ID

_ROOT = 0
_MAX_CALLERS = 1024
# Renewals have threads of their own.
MAX_RUNS = MAX_THREADS - MAX_AT_ONCE
# Lookups of one user that wait for a thread.
MAX_WAITING = 256
# Evictions at once, and then one in so many seconds.
_MAX_EVICTIONS = 10
_EVICTION_SECONDS = 3.0
_MAX_EVICTING_USERS = 256


class Caller(Value):
    """The process at the other end of a connection, as the kernel names it; the process id is 0 if it is unknown.

    *program* is empty if it was not asked for, or cannot be told.
    """

    uid: int
    gids: frozenset[int]
    pid: int = 0
    program: str = ""


class CallerRights:
    """What one caller may ask for."""

    __slots__ = ("_patterns", "has_every_registry", "may_manage")

    def __init__(self, patterns: Sequence[str], *, has_every_registry: bool, may_manage: bool) -> None:
        self._patterns = PatternIndex(enumerate(patterns)) if patterns else None
        self.has_every_registry = has_every_registry
        self.may_manage = may_manage

    @property
    def has_any(self) -> bool:
        """Whether a rule names the caller."""
        return self.may_manage or self.has_every_registry or self._patterns is not None

    def may_ask(self, repository: str) -> bool:
        """Return whether the caller may have credentials for a normalised image name."""
        if self.has_every_registry:
            return True
        return self._patterns is not None and bool(self._patterns.match(repository))


class AccessPolicy:
    """The rules of a config. Root and the agent's own user, who can read its memory, may ask for everything."""

    def __init__(
        self, access: Sequence[AccessRule] = (), manage: Sequence[ManageRule] = (), *, own_uid: int
    ) -> None:
        self._access = tuple(access)
        self._manage = tuple(manage)
        self._trusted = {_ROOT, own_uid}
        self._known: dict[tuple[int, frozenset[int]], CallerRights] = {}

    def rights_of(self, caller: Caller) -> CallerRights:
        """Return what a caller may ask for; nothing if no rule names it."""
        key = (caller.uid, caller.gids)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_CALLERS:
                self._known.clear()
            found = self._known[key] = self._judge(caller)
        return found

    def _judge(self, caller: Caller) -> CallerRights:
        if caller.uid in self._trusted:
            return CallerRights((), has_every_registry=True, may_manage=True)
        rules = [rule for rule in self._access if names(rule, caller)]
        return CallerRights(
            [pattern for rule in rules for pattern in rule.registries],
            has_every_registry=any(rule.every_registry for rule in rules),
            may_manage=any(names(rule, caller) for rule in self._manage),
        )


def names(rule: AccessRule | ManageRule, caller: Caller) -> bool:
    """Return whether a rule is for the caller."""
    if caller.uid in rule.uids:
        return True
    # A user without a number here may be anybody, so that only a rule for exactly this user counts.
    return caller.uid != OVERFLOW_ID and not caller.gids.isdisjoint(rule.gids)


class RunQueue:
    """Whose lookups may run plugins now, and whose wait; for one event loop.

    A lookup of a user may begin if fewer of that user's are under way than threads are free. So one user has half of
    all threads at most, and several users come to equal parts, with one more part free for the next one. What may not
    begin waits in a queue of its user.
    """

    def __init__(self, max_runs: int = MAX_RUNS, max_waiting: int = MAX_WAITING) -> None:
        self._free = max_runs
        self._max_waiting = max_waiting
        self._under_way: dict[int, int] = {}
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    def enter(self, uid: int) -> asyncio.Future[None] | None:
        """Return a place in the queue of a user, which is done when the lookup may begin; None if too many wait."""
        place = asyncio.get_running_loop().create_future()
        if uid not in self._waiting and self._may_begin(uid):
            self._let_begin(uid, place)
            return place
        queue = self._waiting.setdefault(uid, deque())
        if len(queue) >= self._max_waiting:
            return None
        queue.append(place)
        return place

    async def begin(self, uid: int, place: asyncio.Future[None]) -> None:
        """Wait until a lookup may begin; ``end`` follows."""
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.end(uid)  # it was let begin in the same moment
            raise

    def end(self, uid: int) -> None:
        """End a lookup; those that wait begin, the user with the fewest first."""
        self._free += 1
        self._under_way[uid] -= 1
        if not self._under_way[uid]:
            del self._under_way[uid]
        while ready := [each for each in self._waiting if self._may_begin(each)]:
            following = min(ready, key=self._count)
            queue = self._waiting[following]
            place = queue.popleft()
            if not queue:
                del self._waiting[following]
            if not place.done():
                self._let_begin(following, place)

    def _count(self, uid: int) -> int:
        return self._under_way.get(uid, 0)

    def _may_begin(self, uid: int) -> bool:
        return self._count(uid) < self._free

    def _let_begin(self, uid: int, place: asyncio.Future[None]) -> None:
        place.set_result(None)
        self._free -= 1
        self._under_way[uid] = self._count(uid) + 1


class EvictionLimit:
    """A limit for each user: every eviction may cause a plugin run."""

    def __init__(self) -> None:
        # For each user, the instant at which all its evictions are forgotten.
        self._free_at: dict[int, float] = {}

    def wait_seconds(self, uid: int, now: float) -> int:
        """Count an eviction and return 0, or return the seconds until the next one is allowed."""
        free_at = max(self._free_at.get(uid, now), now)
        excess = free_at - now - (_MAX_EVICTIONS - 1) * _EVICTION_SECONDS
        if excess > 0:
            return ceil(excess)
        if len(self._free_at) >= _MAX_EVICTING_USERS and uid not in self._free_at:
            self._free_at = {each: at for each, at in self._free_at.items() if at > now}
        self._free_at[uid] = free_at + _EVICTION_SECONDS
        return 0
