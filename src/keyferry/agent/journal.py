"""The journal of the agent: the last requests about images, who made them, and the service accounts seen."""

from __future__ import annotations

from collections import deque

from keyferry._core.values import Value
from keyferry.agent.access import Caller
from keyferry.agent.decision import RequestDecision

__all__ = ["Journal", "JournalEntry"]

_MOST_ENTRIES = 1000
_MOST_USERS = 256
_MOST_ACCOUNTS = 500


class JournalEntry(Value):
    """One request: its number, when it was answered in seconds since 1970, by whom it was made, and its decision."""

    number: int
    at: float
    caller: Caller
    decision: RequestDecision
    seconds: float


class Journal:
    """A bounded journal; it keeps nothing unless it is on, that is, unless somebody can look at it."""

    def __init__(self, *, is_on: bool, most: int = _MOST_ENTRIES) -> None:
        self.is_on = is_on
        self.number = 0
        self._entries: deque[JournalEntry] = deque(maxlen=most)
        self._last_of_user: dict[int, JournalEntry] = {}
        self._accounts: dict[str, None] = {}

    def add(self, caller: Caller, decision: RequestDecision, at: float, seconds: float) -> None:
        """Write an entry; the oldest one is dropped if there are too many."""
        self.number += 1
        entry = JournalEntry(number=self.number, at=at, caller=caller, decision=decision, seconds=seconds)
        self._entries.append(entry)
        if caller.uid in self._last_of_user or len(self._last_of_user) < _MOST_USERS:
            self._last_of_user[caller.uid] = entry
        if decision.account and decision.account not in self._accounts:
            if len(self._accounts) >= _MOST_ACCOUNTS:
                del self._accounts[next(iter(self._accounts))]
            self._accounts[decision.account] = None

    def newest_first(self) -> list[JournalEntry]:
        """Return all entries."""
        return list(self._entries)[::-1]

    def last_of(self, uid: int) -> JournalEntry | None:
        """Return the last entry of a user."""
        return self._last_of_user.get(uid)

    def accounts(self) -> list[str]:
        """Return the service accounts that callers have named, as ``namespace/name``."""
        return sorted(self._accounts)
