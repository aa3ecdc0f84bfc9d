"""Who may see the page: links that work once, and the sessions that they open.

Links are given to callers of the socket who may manage the agent. All of it is in the memory of one process: a restart
ends every session.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from keyferry._core.values import Value
from keyferry.agent.access import Caller

__all__ = ["LINK_SECONDS", "SESSION_SECONDS", "LinkProblem", "PageAccess"]

LINK_SECONDS = 60
SESSION_SECONDS = 12 * 3600
_KEY_BYTES = 32
# The oldest gives way to a new one.
_MOST_LINKS = _MOST_SESSIONS = 64
_MOST_SPENT = 256
_T = TypeVar("_T")


class LinkProblem(StrEnum):
    """Why a link does not open the page."""

    USED = "used"
    LATE = "late"
    OTHER_USER = "other-user"
    UNKNOWN = "unknown"


class _Grant(Value):
    """For whom a link or a session is, until when, and the user at the other end of the connection, if it is known."""

    caller: Caller
    until: float
    peer_uid: int | None


class PageAccess:
    """Links and sessions; of their keys, only hashes are kept, under a key of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(_KEY_BYTES)
        self._links: dict[bytes, _Grant] = {}
        self._spent: dict[bytes, LinkProblem] = {}
        self._sessions: dict[bytes, _Grant] = {}

    def make_link(self, caller: Caller) -> str:
        """Return the key of a new link for a caller."""
        grant = _Grant(caller=caller, until=self._clock() + LINK_SECONDS, peer_uid=None)
        return self._add(self._links, grant, _MOST_LINKS)

    def open_session(self, key: str, peer_uid: int | None) -> str | LinkProblem:
        """Return the key of a new session for who has the key of a link, or why there is none.

        The link of a user other than root is for this user alone, where it is known who connects.
        """
        digest = self._digest(key)
        found = _find(self._links, digest)
        if found is None:
            spent = _find(self._spent, digest)
            return LinkProblem.UNKNOWN if spent is None else spent
        if self._clock() > found.until:
            self._spend(digest, LinkProblem.LATE)
            return LinkProblem.LATE
        if found.caller.uid and peer_uid not in (None, 0, found.caller.uid):
            return LinkProblem.OTHER_USER
        self._spend(digest, LinkProblem.USED)
        grant = _Grant(caller=found.caller, until=self._clock() + SESSION_SECONDS, peer_uid=peer_uid)
        return self._add(self._sessions, grant, _MOST_SESSIONS)

    def find_caller(self, key: str, peer_uid: int | None) -> Caller | None:
        """Return who asked for the link of a session; None without a session, or for another user's connection."""
        digest = self._digest(key)
        found = _find(self._sessions, digest)
        if found is None or found.peer_uid != peer_uid:
            return None
        if self._clock() > found.until:
            del self._sessions[digest]
            return None
        return found.caller

    def _add(self, grants: dict[bytes, _Grant], grant: _Grant, most: int) -> str:
        key = secrets.token_urlsafe(_KEY_BYTES)
        while len(grants) >= most:
            del grants[next(iter(grants))]
        grants[self._digest(key)] = grant
        return key

    def _spend(self, digest: bytes, problem: LinkProblem) -> None:
        self._links.pop(digest, None)
        while len(self._spent) >= _MOST_SPENT:
            del self._spent[next(iter(self._spent))]
        self._spent[digest] = problem

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._secret, key.encode("utf-8", "replace"), "sha256")


def _find(table: dict[bytes, _T], digest: bytes) -> _T | None:
    """Return the value of a digest, in a time that does not depend on which bytes are equal."""
    found = None
    for known, value in table.items():
        if hmac.compare_digest(known, digest):
            found = value
    return found
