"""No user's lookups wait for those of one other user; what waits is bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest

from keyferry.agent.access import MAX_RUNS, RunQueue
from keyferry.agent.process import AgentProcess
from keyferry.images.lookup import MAX_THREADS
from support.agent_here import agent_here
from support.agents import counting_node
from support.loops import in_loop


class Users:
    """Lookups of several users, each of which lasts until it is told to end."""

    def __init__(self, max_waiting: int = 100) -> None:
        self.queue = RunQueue(8, max_waiting)
        self.begun: dict[int, int] = {}
        self.refused = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def ask(self, uid: int, number: int) -> list[asyncio.Task[None]]:
        """Let a user ask so many times at once."""
        tasks = [asyncio.create_task(self._begin(uid)) for _ in range(number)]
        self._tasks += tasks
        await settle()
        return tasks

    async def _begin(self, uid: int) -> None:
        place = self.queue.enter(uid)
        if place is None:
            self.refused += 1
            return
        await self.queue.begin(uid, place)
        self.begun[uid] = self.begun.get(uid, 0) + 1

    async def end(self, uid: int, number: int = 1) -> None:
        """End some lookups of a user."""
        for _ in range(number):
            self.queue.end(uid)
        await settle()


async def settle() -> None:
    """Let every task go on as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


@in_loop
async def test_one_user_has_half_of_the_threads_and_the_next_one_half_of_the_rest() -> None:
    users = Users(max_waiting=1000)
    await users.ask(1, 300)
    assert users.begun == {1: 4}
    await users.ask(2, 300)
    assert users.begun == {1: 4, 2: 2}
    await users.ask(3, 1)
    assert users.begun == {1: 4, 2: 2, 3: 1}


@in_loop
async def test_a_thread_that_is_free_goes_to_whoever_has_fewest() -> None:
    users = Users()
    for uid in (1, 2):
        await users.ask(uid, 10)
    await users.end(1)
    assert users.begun == {1: 4, 2: 3}
    await users.end(1)
    # Both have as many now, so it goes to the one that gave it back; two are left for a third user.
    assert users.begun == {1: 5, 2: 3}
    await users.ask(3, 1)
    assert users.begun == {1: 5, 2: 3, 3: 1}


@in_loop
async def test_everything_that_waits_begins() -> None:
    users = Users()
    tasks = [*await users.ask(1, 20), *await users.ask(2, 20)]
    for _ in range(20):
        await users.end(1)
        await users.end(2)
    assert users.begun == {1: 20, 2: 20}
    assert all(task.done() for task in tasks)


@in_loop
async def test_the_queue_of_a_user_has_an_end_and_is_its_own() -> None:
    users = Users(max_waiting=3)
    await users.ask(1, 4 + 3)
    assert users.refused == 0
    await users.ask(1, 5)
    assert users.refused == 5
    await users.ask(2, 1)
    assert (users.begun, users.refused) == ({1: 4, 2: 1}, 5)


@in_loop
async def test_who_gives_up_waiting_takes_no_thread() -> None:
    """Neither while it waits, nor in the moment in which it is given one."""
    users = Users()
    tasks = await users.ask(1, 6)
    tasks[4].cancel()
    await settle()
    users.queue.end(1)
    tasks[5].cancel()
    await settle()
    assert users.begun == {1: 4}
    await users.end(1, 3)
    await users.ask(2, 8)
    assert users.begun[2] == 4


def test_renewals_have_threads_of_their_own() -> None:
    assert MAX_RUNS == MAX_THREADS - 4


SECRET = "a-secret-of-somebody"


@pytest.mark.parametrize(
    ("request_line", "is_late"),
    [(("GET", "/v1/status"), False), (("POST", "/v1/reload"), True)],
    ids=["at once", "later"],
)
def test_a_fault_is_logged_with_the_request_and_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_line: tuple[str, str], is_late: bool
) -> None:
    """What the error says may be what somebody sent."""

    def broken(_: AgentProcess) -> NoReturn:
        raise ValueError(SECRET)

    async def broken_later(_: AgentProcess) -> NoReturn:
        await asyncio.sleep(0)
        raise ValueError(SECRET)

    monkeypatch.setattr(AgentProcess, request_line[1].rpartition("/")[2], broken_later if is_late else broken)
    with agent_here(counting_node(tmp_path, SECRET)) as agent:
        assert agent.ask(*request_line, traceparent="a-trace").status == 500
        [line] = [each for each in agent.log.splitlines() if " a request failed " in each]
    assert "error a request failed error=ValueError at=agent/service.py:" in line
    assert f"path={request_line[1]} id=1 traceparent=a-trace" in line
    assert SECRET not in agent.log
