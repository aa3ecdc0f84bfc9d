"""A link works once and soon; a session is one user's, for a time; neither is guessed from what is kept."""

from __future__ import annotations

import pytest

from keyferry.agent.access import Caller
from keyferry.agent.page.access import LINK_SECONDS, SESSION_SECONDS, LinkProblem, PageAccess

ROOT, USER = Caller(uid=0, gids=frozenset()), Caller(uid=1000, gids=frozenset({1000}))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_link_opens_one_session() -> None:
    access = PageAccess()
    key = access.make_link(USER)
    session = access.open_session(key, 1000)
    assert not isinstance(session, LinkProblem)
    assert session != key
    assert access.find_caller(session, 1000) == USER
    assert access.open_session(key, 1000) is LinkProblem.USED
    assert access.find_caller(session, 1000) == USER


def test_a_late_link_and_one_of_another_process_open_none() -> None:
    clock = Clock()
    access = PageAccess(clock)
    key = access.make_link(ROOT)
    assert PageAccess(clock).open_session(key, 0) is LinkProblem.UNKNOWN
    clock.now += LINK_SECONDS + 1
    assert access.open_session(key, 0) is LinkProblem.LATE
    assert access.open_session(key, 0) is LinkProblem.LATE
    assert access.open_session("", 0) is LinkProblem.UNKNOWN


def test_a_session_ends() -> None:
    clock = Clock()
    access = PageAccess(clock)
    session = access.open_session(access.make_link(ROOT), 5)
    assert not isinstance(session, LinkProblem)
    clock.now += SESSION_SECONDS - 1
    assert access.find_caller(session, 5) == ROOT
    clock.now += 2
    assert access.find_caller(session, 5) is None
    assert access._sessions == {}


@pytest.mark.parametrize(("peer", "is_open"), [(1000, True), (0, True), (None, True), (1001, False)])
def test_the_link_of_a_user_is_for_that_user(peer: int | None, *, is_open: bool) -> None:
    """Others cannot even use it up."""
    access = PageAccess()
    key = access.make_link(USER)
    opened = access.open_session(key, peer)
    assert isinstance(opened, LinkProblem) is not is_open
    if not is_open:
        assert opened is LinkProblem.OTHER_USER
        assert not isinstance(access.open_session(key, 1000), LinkProblem)


def test_a_stolen_cookie_is_of_no_use_to_another_user() -> None:
    access = PageAccess()
    session = access.open_session(access.make_link(ROOT), 1000)
    assert not isinstance(session, LinkProblem)
    assert access.find_caller(session, 1001) is None
    assert access.find_caller(session, None) is None
    assert access.find_caller(session[:-1], 1000) is None
    assert access.find_caller(session, 1000) == ROOT


def test_everything_is_bounded_and_the_oldest_gives_way() -> None:
    access = PageAccess()
    first = access.make_link(ROOT)
    keys = [access.make_link(ROOT) for _ in range(64)]
    assert access.open_session(first, 0) is LinkProblem.UNKNOWN
    for key in keys:
        access.open_session(key, 0)
    for _ in range(500):
        access.open_session(access.make_link(ROOT), 0)
    assert (len(access._links), len(access._sessions), len(access._spent)) == (0, 64, 256)


def test_no_key_is_kept() -> None:
    access = PageAccess()
    key = access.make_link(ROOT)
    session = access.open_session(key, 0)
    assert key not in repr(vars(access))
    assert str(session) not in repr(vars(access))
    assert len(key) >= 43  # 256 bits, in base64
