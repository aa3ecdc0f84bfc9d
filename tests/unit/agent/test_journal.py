"""The journal is bounded in every direction, and knows the last request of each user."""

from __future__ import annotations

from keyferry.agent.access import Caller
from keyferry.agent.journal import NO_PROVIDER, Journal, RequestDecision


def caller(uid: int) -> Caller:
    return Caller(uid=uid, gids=frozenset(), pid=1, program="/bin/program")


def decision(image: str, account: str = "") -> RequestDecision:
    return RequestDecision(image=image, account=account, provider="", result=NO_PROVIDER)


def test_the_newest_come_first_and_the_oldest_go() -> None:
    journal = Journal(is_on=True, max_entries=3)
    for number in range(5):
        journal.add(caller(number % 2), decision(f"image{number}"), float(number), 0.001)
    assert [entry.decision.image for entry in journal.newest_first()] == ["image4", "image3", "image2"]
    assert (journal.number, journal.newest_first()[0].number) == (5, 5)


def test_the_last_request_of_a_user_outlives_the_list() -> None:
    journal = Journal(is_on=True, max_entries=1)
    journal.add(caller(7), decision("mine"), 1.0, 0.0)
    journal.add(caller(8), decision("other"), 2.0, 0.0)
    last = journal.last_of(7)
    assert last is not None
    assert (last.decision.image, last.caller.program) == ("mine", "/bin/program")
    assert journal.last_of(9) is None


def test_users_and_accounts_are_bounded() -> None:
    journal = Journal(is_on=True)
    for number in range(2000):
        journal.add(caller(number), decision("image", f"ns/account{number:04}"), 1.0, 0.0)
    assert len(journal._last_of_user) <= 256
    assert journal.accounts() == [f"ns/account{number:04}" for number in range(1500, 2000)]
