"""The node agent's login for a server."""

from __future__ import annotations

import os
from time import monotonic, time

from keyferry._net.agent import (
    AGENT_VARIABLE,
    ANSWER_SECONDS,
    API_VERSION,
    AUTO,
    Fallback,
    ask_agent,
    encode_question,
    find_socket,
)
from keyferry.bridge.docker.login import Login, LoginOutcome, ambiguous_login, first_known, give_login

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keyferry.bridge.docker.server import Server

__all__ = ["ask_for_login", "ask_for_registries", "why_silent"]

# A builder keeps an answer for 4 minutes and 50 seconds; what expires sooner is not given to it.
SHORTEST_LIFE_SECONDS = 290
_SILENCE_SECONDS = 2.0


class _NoAgentError(Exception):
    """There is no agent, or it does not answer."""


def ask_for_login(server: Server, images: Sequence[str], environ: Mapping[str, str]) -> Login | None:
    """Return the agent's login for the first of *images* that it knows, without images for the registry.

    Return None if it has no answer that is understood. If KEYFERRY_CONFIG names a config, only what the agent has for
    that config and its bin dir counts.
    """
    place = find_socket(environ)
    config = _named_config(place, environ) if environ.get("KEYFERRY_CONFIG") else {}
    if not place or config is None:
        return None
    agent = _Agent(place, server, config)
    questions = [{"image": image} for image in images] or [{"registry": host} for host in server.hosts]
    try:
        return first_known(map(agent.ask, questions))
    except _NoAgentError:
        return None


def ask_for_registries(environ: Mapping[str, str]) -> list[str]:
    """Return the registries that the agent has logins for, as far as this user may ask; none without an agent.

    If KEYFERRY_CONFIG names a config, the agent's does not count.
    """
    place = find_socket(environ)
    if not place or environ.get("KEYFERRY_CONFIG"):
        return []
    reply = ask_agent(place, "/v1/registries", method="GET")
    document = {} if isinstance(reply, Fallback) or reply.status != 200 else reply.read_object()
    registries = document.get("registries") if _is_known(document, "RegistryList") else None
    return [each for each in registries if isinstance(each, str)] if isinstance(registries, list) else []


def why_silent(environ: Mapping[str, str]) -> str:
    """Return why the agent that KEYFERRY_AGENT names does not answer; empty if it does, or none is named."""
    place = find_socket(environ)
    if not place or environ.get(AGENT_VARIABLE, AUTO) in ("", AUTO):
        return ""
    reply = ask_agent(place, "/v1/registries", method="GET", answer_seconds=_SILENCE_SECONDS)
    return f"{AGENT_VARIABLE}: {reply.message}" if isinstance(reply, Fallback) else ""


def _named_config(place: str, environ: Mapping[str, str]) -> dict[str, str] | None:
    """Return what tells the agent of the config that the environment names; None if there is no agent or no config."""
    # Imported here: in a pod there is no config, and on a node the agent has the node's.
    from keyferry.errors import KeyferryError
    from keyferry.images.config.contents import hash_of_files
    from keyferry.images.node.discover import discover

    if not os.path.lexists(place):
        return None
    try:
        found = discover(environ=environ)
    except KeyferryError:
        return None
    config_hash = hash_of_files(found.config)
    return {"configHash": config_hash, "binDir": os.path.abspath(found.bin_dir)} if config_hash else None


class _Agent:
    """Asks the agent about one server; all questions together have the time for one answer."""

    def __init__(self, place: str, server: Server, config: Mapping[str, str]) -> None:
        self._place = place
        self._server = server
        self._config = config
        self._until = monotonic() + ANSWER_SECONDS

    def ask(self, question: dict[str, str]) -> Login | None:
        """Return the agent's answer, or None if it has none that is understood; raise if there is no agent."""
        body = encode_question("LookupRequest", {**question, **self._config})
        left = self._until - monotonic()
        reply = ask_agent(self._place, "/v1/lookup", body, answer_seconds=left)
        if isinstance(reply, Fallback):
            raise _NoAgentError
        document = reply.read_object() if reply.status == 200 else {}
        kind = "LookupResponse" if "image" in question else "RegistryResponse"
        if not _is_known(document, kind) or document.get("configHash") != self._config.get("configHash"):
            return None
        return _read_answer(document, self._server)


def _is_known(document: dict[str, object], kind: str) -> bool:
    """Return whether an answer is one that this client understands; that of an image has no outcome."""
    return (
        document.get("apiVersion", API_VERSION) == API_VERSION
        and document.get("kind") == kind
        and document.get("outcome", LoginOutcome.FOUND) in list(LoginOutcome)
    )


def _read_answer(document: dict[str, object], server: Server) -> Login:
    if document.get("outcome") == LoginOutcome.AMBIGUOUS:
        candidates = document.get("candidates")
        return ambiguous_login(server, map(str, candidates) if isinstance(candidates, list) else ())
    credentials = document.get("credentials")
    first = credentials[0] if isinstance(credentials, list) and credentials else None
    if not isinstance(first, dict):
        failures = document.get("failures")
        return _failed(failures) if isinstance(failures, list) and failures else Login(LoginOutcome.NONE)
    if not _lives_long(document.get("expiresAt")):
        note = f"the node agent's login for {server.hosts[0]} ends in less than {SHORTEST_LIFE_SECONDS} s"
        return Login(LoginOutcome.FAILED, note=f"{note}, and no provider config is here to get another")
    return give_login(str(first.get("username", "")), str(first.get("password", "")))


def _lives_long(expires_at: object) -> bool:
    if not isinstance(expires_at, str):
        return True
    from datetime import datetime

    try:
        return datetime.fromisoformat(expires_at).timestamp() - time() >= SHORTEST_LIFE_SECONDS
    except ValueError:
        return False


def _failed(failures: list[object]) -> Login:
    messages = [str(each.get("message", "")) for each in failures if isinstance(each, dict)]
    return Login(
        LoginOutcome.FAILED, note="; ".join(filter(None, messages)) or "a plugin failed in the node agent"
    )
