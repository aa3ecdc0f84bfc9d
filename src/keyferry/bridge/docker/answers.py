"""The login for a server: from the node agent, else from the library; and the servers that have one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from keyferry._core.docker_hub import HUB
from keyferry._net.agent import MAX_NAME_CHARACTERS
from keyferry.bridge.docker.agent_login import ask_for_login, ask_for_registries, why_silent
from keyferry.bridge.docker.login import (
    IMAGE_VARIABLE,
    Login,
    LoginOutcome,
    Server,
    ambiguous_login,
    first_known,
    give_login,
)
from keyferry.errors import ImageNameError, KeyferryError
from keyferry.images.answer import Failure
from keyferry.images.load import ProviderSettings, make_providers
from keyferry.images.lookup import Providers
from keyferry.images.node.discover import discover

# Docker's tools wait without end.
_SECONDS = 60.0
_BIN_DIR_ADVICE = "set KEYFERRY_BIN_DIR"
_ADVICE = "set KEYFERRY_CONFIG and KEYFERRY_BIN_DIR, or KEYFERRY_AGENT to the socket of a node agent"


def find_login(server: Server, environ: Mapping[str, str] | None = None) -> Login:
    """Return the login for a server: of the image in KEYFERRY_IMAGE or in the question, else of the registry."""
    variables = os.environ if environ is None else environ
    given = variables.get(IMAGE_VARIABLE, "")
    if len(given) > MAX_NAME_CHARACTERS:
        note = f"{IMAGE_VARIABLE} is longer than {MAX_NAME_CHARACTERS} characters"
        return Login(outcome=LoginOutcome.FAILED, note=note)
    images = _images(server, given)
    told = ask_for_login(server, images, variables)
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
            outcome=LoginOutcome.NONE, note="; ".join(filter(None, (why_silent(os.environ), str(error))))
        )
    by_image = (_look_up_image(providers, image) for image in images)
    by_host = (_look_up_registry(server, providers, host) for host in server.hosts)
    return first_known(by_image if images else by_host) or Login(outcome=LoginOutcome.NONE)


def _look_up_image(providers: Providers, image: str) -> Login:
    try:
        answer = providers.lookup(image, timeout_seconds=_SECONDS)
    except ImageNameError:
        return Login(outcome=LoginOutcome.NONE)
    if answer.credentials:
        return give_login(answer.credentials[0].username, answer.credentials[0].password)
    return _failed(answer.failures) if answer.failures else Login(outcome=LoginOutcome.NONE)


def _look_up_registry(server: Server, providers: Providers, host: str) -> Login:
    from keyferry.images.registries import RegistryOutcome, lookup_registry

    found = lookup_registry(providers, host, timeout_seconds=_SECONDS)
    if found.outcome is RegistryOutcome.NONE:
        return Login(outcome=LoginOutcome.NONE)
    if found.outcome is RegistryOutcome.FAILED:
        return _failed(found.failures)
    if found.credential is None:
        return ambiguous_login(server, found.candidates)
    return give_login(found.credential.username, found.credential.password)


def list_registries() -> tuple[Sequence[str], str]:
    """Return the hosts that patterns of this node's config name exactly, without a config those of the agent.

    The second part is a note about an agent that does not answer, or empty.
    """
    from keyferry.images.registries import exact_registries

    try:
        return exact_registries(_load_configured().configs), ""
    except KeyferryError:
        registries = ask_for_registries(os.environ)
        return registries, "" if registries else why_silent(os.environ)


def is_served(server: Server) -> bool:
    """Return whether a provider of this node's config is for a server, without a config one of the agent."""
    from keyferry.images.registries import paths_of

    try:
        configs = _load_configured().configs
    except KeyferryError:
        told = ask_for_login(server, (), os.environ)
        return told is not None and told.outcome is not LoginOutcome.NONE
    return any(paths_of(configs, host) for host in server.hosts)


def _load_configured() -> Providers:
    """Return the providers of this node; raise KeyferryError if there is no config, or it is broken."""
    found = discover(advice=_ADVICE, bin_dir_advice=_BIN_DIR_ADVICE)
    return make_providers(found.config, found.bin_dir, ProviderSettings(timeout_seconds=_SECONDS))


def _failed(failures: Iterable[Failure]) -> Login:
    return Login(outcome=LoginOutcome.FAILED, note="; ".join(map(str, failures)))
