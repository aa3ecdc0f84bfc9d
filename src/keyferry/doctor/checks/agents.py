"""The node agents: whether they answer, with which version and config, and which of their providers fail."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from keyferry import __version__
from keyferry.doctor.facts import AgentFacts, NodeFacts
from keyferry.doctor.health import HealthLevel, HealthLine
from keyferry.doctor.hints import Hints

__all__ = ["check_agents"]

_ALONE = "plugins are run without it"
_USUAL = "its usual place"


def check_agents(facts: NodeFacts, hints: Hints) -> Iterator[HealthLine]:
    """Yield one line for each agent, and one for each thing about it that is not as it should be."""
    for agent in facts.agents:
        yield from _check(agent, hints, is_online=facts.is_online)


def _check(agent: AgentFacts, hints: Hints, *, is_online: bool) -> Iterator[HealthLine]:
    if not agent.socket.startswith("/"):
        text = (
            f"{agent.named_by} is {agent.socket!r}, expected 'off', 'auto' or the absolute path of a socket"
        )
        yield _line(HealthLevel.WARNING, f"{text}; {_ALONE}")
        return
    where = f"{agent.socket} (named by {agent.named_by})"
    if agent.named_by == _USUAL:
        where = f"{agent.socket} ({_USUAL})"
    if not agent.is_there:
        yield _line(HealthLevel.WARNING, f"{where} is not there; {_ALONE}", _command(agent, "run"))
    elif not is_online:
        yield _line(HealthLevel.OK, f"{where} is there; --online asks it", hints.doctor("--online"))
    elif agent.problem:
        text = f"{where} gives no answer, and {_ALONE}: {agent.problem}"
        yield _line(HealthLevel.WARNING, text, _command(agent, "status"))
    elif agent.is_closed:
        text = f"{where} answers; this user may not see its status"
        yield _line(HealthLevel.UNKNOWN, text, hints.doctor("--online", is_root=True))
    else:
        yield from _told(agent, where)


def _told(agent: AgentFacts, where: str) -> Iterator[HealthLine]:
    other = "" if agent.version == __version__ else f"; this command has version {__version__}"
    yield _line(HealthLevel.OK, f"{where} answers: version {agent.version}{other}")
    if not agent.has_same_config:
        text = f"its config {agent.config} is not the one above, so lookups with that one do not use it"
        yield _line(HealthLevel.WARNING, text, _command(agent, "status"))
    for problem in agent.reload_problems[:1]:
        more = len(agent.reload_problems) - 1
        text = f"its last reload was refused: {problem}{f'; and {more} more' if more else ''}"
        yield _line(HealthLevel.WARNING, text, _command(agent, "status"))
    for failure in agent.failures:
        level = HealthLevel.WARNING if failure.is_recent else HealthLevel.OK
        text = f"its provider {failure.provider} last failed at {failure.at}: {failure.message}"
        yield _line(level, text, _command(agent, "status"))


def _command(agent: AgentFacts, name: str) -> str:
    place = () if agent.named_by == _USUAL else ("--socket", agent.socket)
    return shlex.join(("keyferry", "agent", name, *place))


def _line(level: HealthLevel, text: str, next_command: str = "") -> HealthLine:
    return HealthLine(level=level, subject="agent", text=text, next_command=next_command)
