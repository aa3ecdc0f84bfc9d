"""No user's lookups wait for those of one other user; what waits is bounded."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable

from keyferry.agent.access import MAX_RUNS, Caller, RunQueue
from keyferry.agent.log import AgentLog
from keyferry.agent.message import AgentReply, AgentRequest
from keyferry.agent.refresh import Refresher
from keyferry.agent.service import AgentService, Management
from keyferry.agent.state import AgentState
from keyferry.images.lookup import MAX_THREADS

Tasks = list[asyncio.Task[None]]


async def settle() -> None:
    """Let every task go on as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


class Users:
    """Lookups of several users, each of which lasts until it is told to end."""

    def __init__(self, queue: RunQueue) -> None:
        self.queue = queue
        self.begun: dict[int, int] = {}
        self.refused = 0

    async def ask(self, uid: int, number: int) -> Tasks:
        """Let a user ask so many times at once."""
        tasks = [asyncio.create_task(self._begin(uid)) for _ in range(number)]
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


def run(act: Callable[[Users], Awaitable[Tasks]], max_runs: int = 8, max_waiting: int = 100) -> None:
    """Let users act."""

    async def main() -> None:
        for task in await act(Users(RunQueue(max_runs, max_waiting))):
            task.cancel()
        await settle()

    asyncio.run(main())


def test_one_user_has_half_of_the_threads_and_the_next_one_half_of_the_rest() -> None:
    async def act(users: Users) -> Tasks:
        first = await users.ask(1, 300)
        assert users.begun == {1: 4}
        second = await users.ask(2, 300)
        assert users.begun == {1: 4, 2: 2}
        third = await users.ask(3, 1)
        assert users.begun == {1: 4, 2: 2, 3: 1}
        return first + second + third

    run(act, max_waiting=1000)


def test_a_thread_that_is_free_goes_to_whoever_has_fewest() -> None:
    async def act(users: Users) -> Tasks:
        tasks = await users.ask(1, 10) + await users.ask(2, 10)
        await users.end(1)
        assert users.begun == {1: 4, 2: 3}
        await users.end(1)
        # Both have as many now, so it goes to the one that gave it back; two are left for a third user.
        assert users.begun == {1: 5, 2: 3}
        tasks += await users.ask(3, 1)
        assert users.begun == {1: 5, 2: 3, 3: 1}
        return tasks

    run(act)


def test_everything_that_waits_begins() -> None:
    async def act(users: Users) -> Tasks:
        tasks = await users.ask(1, 20) + await users.ask(2, 20)
        for _ in range(20):
            for uid in tuple(users.queue._under_way):
                await users.end(uid)
        assert users.begun == {1: 20, 2: 20}
        assert all(task.done() for task in tasks)
        assert users.queue._under_way == {}
        return tasks

    run(act)


def test_the_queue_of_a_user_has_an_end_and_is_its_own() -> None:
    async def act(users: Users) -> Tasks:
        tasks = await users.ask(1, 4 + 3)
        assert users.refused == 0
        tasks += await users.ask(1, 5)
        assert users.refused == 5
        tasks += await users.ask(2, 1)
        assert (users.begun, users.refused) == ({1: 4, 2: 1}, 5)
        return tasks

    run(act, max_waiting=3)


def test_who_gives_up_waiting_takes_no_thread() -> None:
    """Neither while it waits, nor in the moment in which it is given one."""

    async def act(users: Users) -> Tasks:
        tasks = await users.ask(1, 6)
        tasks[4].cancel()
        await settle()
        users.queue.end(1)
        tasks[5].cancel()
        await settle()
        assert users.begun == {1: 4}
        assert users.queue._under_way == {1: 3}
        await users.end(1, 3)
        more = await users.ask(2, 8)
        assert users.begun[2] == 4
        return more

    run(act)


def test_renewals_have_threads_of_their_own() -> None:
    assert MAX_RUNS == MAX_THREADS - 4


SECRET = "a-secret-of-somebody"


class _Broken(Management):
    """A process whose parts fail, at once or later."""

    def status(self) -> dict[str, object]:
        raise ValueError(SECRET)

    async def reload(self) -> AgentReply:
        await asyncio.sleep(0)
        raise KeyError(SECRET)


class _State:
    """A state in which everybody may manage the agent, and nobody may look up an image."""

    policy = property(lambda self: self)
    may_manage = has_any = True

    def may_ask(self, repository: str) -> bool:
        del repository
        return False

    def rights_of(self, caller: Caller) -> _State:
        del caller
        return self


def handled(method: bytes, path: bytes) -> tuple[AgentReply, str]:
    """Return the reply to a request, and the log."""
    stream = io.StringIO()
    log = AgentLog(stream=stream)
    state: AgentState = _State()  # type: ignore[assignment] # as much of it as is used
    service = AgentService(lambda: state, Refresher(log, 0), _Broken(), log)
    request = AgentRequest(
        method=method,
        path=path,
        body=SECRET.encode(),
        caller=Caller(uid=7, gids=frozenset()),
        traceparent="a-trace",
        number=42,
    )

    async def main() -> AgentReply:
        reply = service.handle(request)
        return await reply if isinstance(reply, Awaitable) else reply

    return asyncio.run(main()), stream.getvalue()


def test_a_fault_is_logged_with_the_request_and_its_place() -> None:
    """At once or later; what the error says may be what somebody sent."""
    for method, path, kind in ((b"GET", b"/v1/status", "ValueError"), (b"POST", b"/v1/reload", "KeyError")):
        reply, log = handled(method, path)
        assert reply.status == 500
        [line] = log.splitlines()
        assert f"error a request failed error={kind} at=agent/service.py:" in line.replace('"', "")
        assert f"path={path.decode()} id=42 traceparent=a-trace" in line
        assert SECRET not in line
