"""Turns of users at the threads that run plugins, so that nobody's lookups wait for those of one other user."""

from __future__ import annotations

import asyncio
from collections import deque

from keyferry.agent.refresher import MOST_AT_ONCE
from keyferry.images.lookup import MAX_THREADS

__all__ = ["RunTurns"]

# Renewals have theirs.
MOST_TURNS = MAX_THREADS - MOST_AT_ONCE
MOST_WAITING = 256


class RunTurns:
    """Who may look up with a plugin run now, and who waits; for one event loop.

    A user may begin if fewer of its lookups are under way than turns are free. So one user has half of all turns at
    most, and several come to equal parts, with one more part free for the next user. What may not begin waits in a
    queue of its user.
    """

    def __init__(self, most: int = MOST_TURNS, most_waiting: int = MOST_WAITING) -> None:
        self._free = most
        self._most_waiting = most_waiting
        self._under_way: dict[int, int] = {}
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    def take_place(self, uid: int) -> asyncio.Future[None] | None:
        """Return a turn, or a place in the queue of a user that becomes one; None if as many wait as may."""
        turn = asyncio.get_running_loop().create_future()
        if uid not in self._waiting and self._may_begin(uid):
            self._give(uid, turn)
            return turn
        queue = self._waiting.setdefault(uid, deque())
        if len(queue) >= self._most_waiting:
            return None
        queue.append(turn)
        return turn

    async def begin(self, uid: int, turn: asyncio.Future[None]) -> None:
        """Wait for a turn; ``end`` gives it back."""
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(uid)  # it was given in the same moment
            raise

    def end(self, uid: int) -> None:
        """Give a turn back, and pass it on to whoever waits, the user with the fewest first."""
        self._free += 1
        self._under_way[uid] -= 1
        if not self._under_way[uid]:
            del self._under_way[uid]
        while ready := [each for each in self._waiting if self._may_begin(each)]:
            self._wake(min(ready, key=self._number))

    def _number(self, uid: int) -> int:
        return self._under_way.get(uid, 0)

    def _may_begin(self, uid: int) -> bool:
        return self._number(uid) < self._free

    def _give(self, uid: int, turn: asyncio.Future[None]) -> None:
        turn.set_result(None)
        self._free -= 1
        self._under_way[uid] = self._number(uid) + 1

    def _wake(self, uid: int) -> None:
        queue = self._waiting[uid]
        turn = queue.popleft()
        if not queue:
            del self._waiting[uid]
        if not turn.done():
            self._give(uid, turn)
