"""The node agents that this machine names: those of shims, and the one that commands ask."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

from keyferry._core.values import replace
from keyferry._net.agent import AGENT_VARIABLE, Fallback, ask_agent, find_socket
from keyferry.api.meta import parse_time
from keyferry.doctor.facts import AgentFacts, AgentFailure, ConfigFacts
from keyferry.errors import TimeError

__all__ = ["find_agents", "question_agent"]

_RECENT_NS = 3600 * 1_000_000_000


def find_agents(
    config: ConfigFacts | None, host_root: str, environ: Mapping[str, str]
) -> Iterator[AgentFacts]:
    """Yield the agents that are named; one that is only looked for in its usual place has to be there."""
    seen: set[str] = set()
    for provider in () if config is None else config.providers:
        if provider.shim is not None and provider.shim.socket not in ("", *seen):
            seen.add(provider.shim.socket)
            place = provider.shim.socket
            yield AgentFacts(
                socket=place, named_by=f"the shim of {provider.name}", is_there=os.path.lexists(place)
            )
    place, is_named = find_socket(environ), bool(environ.get(AGENT_VARIABLE))
    if not is_named:
        place = os.path.join(host_root, place.lstrip("/")) if place else ""
    is_there = os.path.lexists(place)
    if place and place not in seen and (is_named or is_there):
        yield AgentFacts(
            socket=place, named_by=AGENT_VARIABLE if is_named else "its usual place", is_there=is_there
        )


def question_agent(facts: AgentFacts, config_hash: str, timeout_seconds: float) -> AgentFacts:
    """Return the facts with what the agent tells about itself."""
    reply = ask_agent(facts.socket, "/v1/status", answer_seconds=timeout_seconds, method="GET")
    if isinstance(reply, Fallback):
        return replace(facts, problem=reply.message)
    if reply.status == 403:
        return replace(facts, is_closed=True)
    status = reply.read_object()
    config, reload = status.get("config"), status.get("reload")
    if reply.status != 200 or not isinstance(config, dict) or not isinstance(reload, dict):
        return replace(facts, problem=f"its status is not understood here (HTTP status {reply.status})")
    problems = reload.get("problems")
    return replace(
        facts,
        version=str(status.get("version", "")),
        config=str(config.get("providerConfig", "")),
        has_same_config=not config_hash or config.get("hash") == config_hash,
        reload_problems=tuple(map(str, problems)) if isinstance(problems, list) else (),
        failures=tuple(_failures(status.get("providers"))),
    )


def _failures(providers: object) -> Iterator[AgentFailure]:
    """Yield the last failure of each provider that has one."""
    for each in providers if isinstance(providers, list) else ():
        last = each.get("lastFailure") if isinstance(each, dict) else None
        if isinstance(last, dict):
            at = str(last.get("at", ""))
            message = str(last.get("message", ""))
            yield AgentFailure(
                provider=str(each.get("name", "")), at=at, message=message, is_recent=_is_recent(at)
            )


def _is_recent(at: str) -> bool:
    try:
        return time.time_ns() - parse_time(at) < _RECENT_NS
    except TimeError:
        return True
