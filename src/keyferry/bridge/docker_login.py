"""The login for a server of a credential helper's question: from the node agent, else from the library.

Also the servers that have one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from time import monotonic, time

from keyferry._core.docker_hub import ALIASES, HUB, IDENTITY_TOKEN
from keyferry._core.values import Value, field
from keyferry._net.agent import (
    AGENT_VARIABLE,
    ANSWER_SECONDS,
    API_VERSION,
    AUTO,
    MAX_NAME_CHARACTERS,
    Fallback,
    ask_agent,
    encode_question,
    find_socket,
)
from keyferry.errors import ImageNameError, KeyferryError
from keyferry.images.answer import Failure
from keyferry.images.config.contents import hash_of_files
from keyferry.images.load import ProviderSettings, make_providers
from keyferry.images.lookup import Providers
from keyferry.images.node.discover import discover
from keyferry.images.registries import RegistryOutcome, exact_registries, lookup_registry, paths_of

# An image to look up when a tool asks for its registry alone.
IMAGE_VARIABLE = "KEYFERRY_IMAGE"
_DEFAULT_PORTS = {"": "443", "https": "443", "http": "80"}
_VERSIONS = ("v1", "v2")
_HUB_NAMES = (HUB, *ALIASES)
# A builder keeps an answer for 4 minutes and 50 seconds; what expires sooner is not given to it.
_MIN_LIFE_SECONDS = 290
_SILENCE_SECONDS = 2.0
# Docker's tools wait without end.
_LOOKUP_SECONDS = 60.0
_BIN_DIR_ADVICE = "set KEYFERRY_BIN_DIR"
_ADVICE = "set KEYFERRY_CONFIG and KEYFERRY_BIN_DIR, or KEYFERRY_AGENT to the socket of a node agent"


class Server(Value):
    """A registry: its host as images name it, and the path of a repository if one was asked for.

    *hosts* are the spellings to try: as it was given, and without a default port. Images and patterns tell the two
    apart; some tools add the port to a host without one.
    """

    hosts: tuple[str, ...]
    path: str = ""


def parse_server(url: str) -> Server | None:
    """Return the registry that *url* names, with or without a scheme; None if it names none.

    All names of Docker Hub are one. The version of an API is left out. URLs with blanks,
    control characters or user info name no registry, nor do those that are longer than any name.
    """
    if len(url) > MAX_NAME_CHARACTERS or any(not "!" <= char <= "~" for char in url) or "@" in url:
        return None
    scheme, found, rest = url.rpartition("://")
    if found and scheme.lower() not in ("http", "https"):
        return None
    authority, _, path = rest.partition("?")[0].partition("#")[0].partition("/")
    host, colon, port = (
        authority.lower().partition(":") if "]" not in authority else _split_address(authority)
    )
    if not host or (colon and not (port.isdigit() and len(port) <= 5)):
        return None
    is_default = port == _DEFAULT_PORTS[scheme.lower()]
    if host in _HUB_NAMES and (not port or is_default):
        return Server(hosts=(HUB,), path=_trim(path))
    given = host + colon + port
    return Server(hosts=(given, host) if is_default else (given,), path=_trim(path))


def _split_address(authority: str) -> tuple[str, str, str]:
    address, bracket, rest = authority.lower().partition("]")
    return address + bracket, rest[:1], rest[1:]


def _trim(path: str) -> str:
    """Return a path without slashes around it and without the version of an API."""
    first, _, rest = path.strip("/").partition("/")
    return rest.strip("/") if first in _VERSIONS else path.strip("/")


class LoginOutcome(StrEnum):
    """What is known about a server."""

    FOUND = "found"
    NONE = "none"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"


class Login(Value):
    """A user name and a secret, or a note why there are none."""

    outcome: LoginOutcome
    username: str = ""
    secret: str = field(default="", repr=False)
    note: str = ""


def find_login(server: Server, environ: Mapping[str, str] | None = None) -> Login:
    """Return the login for a server: of the image in KEYFERRY_IMAGE or in the question, else of the registry."""
    variables = os.environ if environ is None else environ
    given = variables.get(IMAGE_VARIABLE, "")
    if len(given) > MAX_NAME_CHARACTERS:
        note = f"{IMAGE_VARIABLE} is longer than {MAX_NAME_CHARACTERS} characters"
        return Login(outcome=LoginOutcome.FAILED, note=note)
    images = _images(server, given)
    told = _ask_for_login(server, images, variables)
    if told is None or told.outcome is LoginOutcome.FAILED:
        return _look_up(server, images, told)
    return told


def _images(server: Server, given: str) -> list[str]:
    """Return the image to look up, in the spellings of its registry; none if the question is for the registry."""
    if server.path:
        return [f"{host}/{server.path}" for host in server.hosts]
    host = given.partition("/")[0]
    if given and (host in server.hosts or (HUB in server.hosts and ("/" not in given or "." not in host))):
        return [given]
    return []


def _look_up(server: Server, images: Sequence[str], told: Login | None) -> Login:
    """Look up in this process, as ``keyferry get`` does; *told* is why the agent's answer cannot be used.

    A run in this process may do better, and says why if it does not.
    """
    try:
        providers = _load_configured()
    except KeyferryError as error:
        return told or Login(
            outcome=LoginOutcome.NONE, note="; ".join(filter(None, (_why_silent(os.environ), str(error))))
        )
    by_image = (_look_up_image(providers, image) for image in images)
    by_host = (_look_up_registry(server, providers, host) for host in server.hosts)
    return _first_known(by_image if images else by_host) or Login(outcome=LoginOutcome.NONE)


def _look_up_image(providers: Providers, image: str) -> Login:
    try:
        answer = providers.lookup(image, timeout_seconds=_LOOKUP_SECONDS)
    except ImageNameError:
        return Login(outcome=LoginOutcome.NONE)
    if answer.credentials:
        return _give_login(answer.credentials[0].username, answer.credentials[0].password)
    return _failed(answer.failures) if answer.failures else Login(outcome=LoginOutcome.NONE)


def _look_up_registry(server: Server, providers: Providers, host: str) -> Login:
    found = lookup_registry(providers, host, timeout_seconds=_LOOKUP_SECONDS)
    if found.outcome is RegistryOutcome.NONE:
        return Login(outcome=LoginOutcome.NONE)
    if found.outcome is RegistryOutcome.FAILED:
        return _failed(found.failures)
    if found.credential is None:
        return _ambiguous_login(server, found.candidates)
    return _give_login(found.credential.username, found.credential.password)


def list_registries() -> tuple[Sequence[str], str]:
    """Return the hosts that patterns of this node's config name exactly, without a config those of the agent.

    The second part is a note about an agent that does not answer, or empty.
    """
    try:
        return exact_registries(_load_configured().configs), ""
    except KeyferryError:
        registries = _ask_for_registries(os.environ)
        return registries, "" if registries else _why_silent(os.environ)


def is_served(server: Server) -> bool:
    """Return whether a provider of this node's config is for a server, without a config one of the agent."""
    try:
        configs = _load_configured().configs
    except KeyferryError:
        told = _ask_for_login(server, (), os.environ)
        return told is not None and told.outcome is not LoginOutcome.NONE
    return any(paths_of(configs, host) for host in server.hosts)


def _load_configured() -> Providers:
    """Return the providers of this node; raise KeyferryError if there is no config, or it is broken."""
    found = discover(advice=_ADVICE, bin_dir_advice=_BIN_DIR_ADVICE)
    return make_providers(found.config, found.bin_dir, ProviderSettings(timeout_seconds=_LOOKUP_SECONDS))


def _failed(failures: Iterable[Failure]) -> Login:
    return Login(outcome=LoginOutcome.FAILED, note="; ".join(map(str, failures)))


def _ask_for_login(server: Server, images: Sequence[str], environ: Mapping[str, str]) -> Login | None:
    """Return the agent's login for the first of *images* that it knows, without images for the registry.

    Return None if it has no answer that is understood. If KEYFERRY_CONFIG names a config, only what the agent has for
    that config and its bin dir counts.
    """
    place = find_socket(environ)
    config = _named_config(place, environ) if environ.get("KEYFERRY_CONFIG") else {}
    if not place or config is None:
        return None
    questions = [{"image": image} for image in images] or [{"registry": host} for host in server.hosts]
    return _first_known(_ask_each(place, server, [{**each, **config} for each in questions]))


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


def _ask_for_registries(environ: Mapping[str, str]) -> list[str]:
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


def _why_silent(environ: Mapping[str, str]) -> str:
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
        return _ambiguous_login(server, map(str, candidates) if isinstance(candidates, list) else ())
    credentials = document.get("credentials")
    first = credentials[0] if isinstance(credentials, list) and credentials else None
    if not isinstance(first, dict):
        failures = document.get("failures")
        return (
            _failed_in_agent(failures)
            if isinstance(failures, list) and failures
            else Login(outcome=LoginOutcome.NONE)
        )
    if not _lives_long(document.get("expiresAt")):
        note = f"the node agent's login for {server.hosts[0]} ends in less than {_MIN_LIFE_SECONDS} s"
        return Login(
            outcome=LoginOutcome.FAILED, note=f"{note}, and no provider config is here to get another"
        )
    return _give_login(str(first.get("username", "")), str(first.get("password", "")))


def _lives_long(expires_at: object) -> bool:
    if not isinstance(expires_at, str):
        return True
    try:
        return datetime.fromisoformat(expires_at).timestamp() - time() >= _MIN_LIFE_SECONDS
    except ValueError:
        return False


def _failed_in_agent(failures: list[object]) -> Login:
    messages = [str(each.get("message", "")) for each in failures if isinstance(each, dict)]
    return Login(
        outcome=LoginOutcome.FAILED,
        note="; ".join(filter(None, messages)) or "a plugin failed in the node agent",
    )


def _give_login(username: str, secret: str) -> Login:
    """Return a login that was found, unless docker's tools would take its secret for something else."""
    if username == IDENTITY_TOKEN:
        # To docker's tools that name says that the secret is no password.
        return Login(
            outcome=LoginOutcome.NONE,
            note=f"the user name {IDENTITY_TOKEN!r} cannot be given to docker's tools",
        )
    return Login(outcome=LoginOutcome.FOUND, username=username, secret=secret)


def _ambiguous_login(server: Server, candidates: Iterable[str]) -> Login:
    """Return that the login depends on the image, with the cure."""
    named = ", ".join(candidates)
    return Login(
        outcome=LoginOutcome.AMBIGUOUS,
        note=f"the login for {server.hosts[0]} depends on the image ({named}); set {IMAGE_VARIABLE} to the image, "
        "or use 'keyferry get IMAGE -o dockerconfig'",
    )


def _first_known(logins: Iterable[Login | None]) -> Login | None:
    """Return the first of the answers for the spellings of a server that says something; None stands for no answer.

    If all of them say that there is none, so does the result; if one of them is missing, there is no result.
    """
    is_complete = True
    for login in logins:
        if login is None:
            is_complete = False
        elif login.outcome is not LoginOutcome.NONE or login.note:
            return login
    return Login(outcome=LoginOutcome.NONE) if is_complete else None
