"""A fault of the agent is an answer, and a line of the log that says where it is and quotes nothing."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable

from keyferry.agent.access import Caller
from keyferry.agent.log import AgentLog
from keyferry.agent.message import AgentReply, AgentRequest
from keyferry.agent.refresh import Refresher
from keyferry.agent.service import AgentService, Management
from keyferry.agent.state import AgentState

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
