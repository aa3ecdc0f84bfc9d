"""The node agent's login for a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
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
from keyferry.bridge.docker.login import (
    Login,
    LoginOutcome,
    Server,
    ambiguous_login,
    first_known,
    give_login,
)
from keyferry.errors import KeyferryError
from keyferry.images.config.contents import hash_of_files
from keyferry.images.node.discover import discover

# A builder keeps an answer for 4 minutes and 50 seconds; what expires sooner is not given to it.
_MIN_LIFE_SECONDS = 290
_SILENCE_SECONDS = 2.0


def ask_for_login(server: Server, images: Sequence[str], environ: Mapping[str, str]) -> Login | None:
    """Return the agent's login for the first of *images* that it knows, without images for the registry.

    Return None if it has no answer that is understood. If KEYFERRY_CONFIG names a config, only what the agent has for
    that config and its bin dir counts.
    """
    place = find_socket(environ)
    config = _named_config(place, environ) if environ.get("KEYFERRY_CONFIG") else {}
    if not place or config is None:
        return None
    questions = [{"image": image} for image in images] or [{"registry": host} for host in server.hosts]
    return first_known(_ask_each(place, server, [{**each, **config} for each in questions]))


def _ask_each(place: str, server: Server, questions: Sequence[Mapping[str, str]]) -> Iterator[Login | None]:
    """Yield the agent's answers, None for one that is not understood; an agent that does not answer is asked once."""
    # All questions together have the time for one answer.
    until = monotonic() + ANSWER_SECONDS
    for question in questions:
        body = encode_question("LookupRequest", question)
        reply = ask_agent(place, "/v1/lookup", body, answer_seconds=until - monotonic())
        if isinstance(reply, Fallback):
            yield None
            return
        document = reply.read_object() if reply.status == 200 else {}
        kind = "LookupResponse" if "image" in question else "RegistryResponse"
        is_same_config = document.get("configHash") == question.get("configHash")
        yield _read_answer(document, server) if _is_known(document, kind) and is_same_config else None


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
    if not os.path.lexists(place):
        return None
    try:
        found = discover(environ=environ)
    except KeyferryError:
        return None
    config_hash = hash_of_files(found.config)
    return {"configHash": config_hash, "binDir": os.path.abspath(found.bin_dir)} if config_hash else None


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
        return (
            _failed(failures) if isinstance(failures, list) and failures else Login(outcome=LoginOutcome.NONE)
        )
    if not _lives_long(document.get("expiresAt")):
        note = f"the node agent's login for {server.hosts[0]} ends in less than {_MIN_LIFE_SECONDS} s"
        return Login(
            outcome=LoginOutcome.FAILED, note=f"{note}, and no provider config is here to get another"
        )
    return give_login(str(first.get("username", "")), str(first.get("password", "")))


def _lives_long(expires_at: object) -> bool:
    if not isinstance(expires_at, str):
        return True
    try:
        return datetime.fromisoformat(expires_at).timestamp() - time() >= _MIN_LIFE_SECONDS
    except ValueError:
        return False


def _failed(failures: list[object]) -> Login:
    messages = [str(each.get("message", "")) for each in failures if isinstance(each, dict)]
    return Login(
        outcome=LoginOutcome.FAILED,
        note="; ".join(filter(None, messages)) or "a plugin failed in the node agent",
    )
