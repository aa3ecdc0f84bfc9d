"""Which node agent a lookup asks, if any."""

from __future__ import annotations

import os
from collections.abc import Mapping

from keyferry._core.values import Value
from keyferry._net.agent import AUTO, OFF, VARIABLE, find_socket
from keyferry.errors import EnvironmentProblem

__all__ = ["AgentUse", "check_agent", "check_variable", "choose_agent"]

_EXPECTED = "expected 'off', 'auto' or the absolute path of a socket"


class AgentUse(Value):
    """The socket of the agent to ask, and *why_not* if it is not asked all the same."""

    place: str
    why_not: str = ""


def choose_agent(
    given: str | None = None, environ: Mapping[str, str] | None = None, *, why_not: str = ""
) -> AgentUse | None:
    """Return the agent that is given as ``auto`` or a socket, or None if it is ``off``.

    Without *given*, it is KEYFERRY_AGENT, else the usual place if there is a socket. Raise EnvironmentProblem if that
    variable counts and is none of these.
    """
    variables = os.environ if environ is None else environ
    if given in (None, "", AUTO):
        check_variable(variables)
    place = find_socket(variables, given or "")
    is_named = given or variables.get(VARIABLE)
    return AgentUse(place=place, why_not=why_not) if place and (is_named or os.path.lexists(place)) else None


def check_agent(given: str) -> str:
    """Return ``off``, ``auto`` or the absolute path of a socket as it is; raise ValueError for anything else."""
    if not _names_agent(given):
        raise ValueError(f"agent is {given!r}, {_EXPECTED}")
    return given


def check_variable(environ: Mapping[str, str]) -> None:
    """Raise EnvironmentProblem if KEYFERRY_AGENT is set, and neither ``off`` nor ``auto`` nor an absolute path."""
    given = environ.get(VARIABLE)
    if given and not _names_agent(given):
        raise EnvironmentProblem(f"{VARIABLE} is {given!r}, {_EXPECTED}")


def _names_agent(given: str) -> bool:
    return given in (OFF, AUTO) or given.startswith("/")
