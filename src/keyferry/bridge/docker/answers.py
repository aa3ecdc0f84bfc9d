"""The login for a server: from the node agent with the standard library alone, else from the library."""

import os
from time import time

from keyferry._core.docker_hub import HUB, IDENTITY_TOKEN
from keyferry._core.json import dumps
from keyferry._core.values import Value, field
from keyferry._core.word_enum import WordEnum
from keyferry._net.agent import API_VERSION, Fallback, ask_agent, find_socket

TYPE_CHECKING = False  # a literal: importing typing would slow down every start
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from keyferry.bridge.docker.server import Server
    from keyferry.images.lookup import Providers
    from keyferry.images.registries import RegistryAnswer
    from keyferry.images.result import Failure

__all__ = ["Login", "LoginOutcome", "find_login", "load_configured"]

# An image to look up when a tool asks for its registry alone.
IMAGE_VARIABLE = "KEYFERRY_IMAGE"
# A builder keeps an answer for 4 minutes and 50 seconds; what expires sooner is not given to it.
SHORTEST_LIFE_SECONDS = 290
# Docker's tools wait without end.
_SECONDS = 60.0


class LoginOutcome(WordEnum):
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


def find_login(server: "Server", environ: "Mapping[str, str] | None" = None) -> Login:
    """Return the login for a server: of the image in KEYFERRY_IMAGE or in the question, else of the registry."""
    variables = os.environ if environ is None else environ
    image = _image(server, variables.get(IMAGE_VARIABLE, ""))
    told = _ask(server, image, variables)
    if told is None or told.outcome is LoginOutcome.FAILED:
        return _look_up(server, image, told)
    return told


def _image(server: "Server", given: str) -> str:
    if server.path:
        return f"{server.hosts[0]}/{server.path}"
    host = given.partition("/")[0]
    if given and (host in server.hosts or (HUB in server.hosts and ("/" not in given or "." not in host))):
        return given
    return ""


def _ask(server: "Server", image: str, environ: "Mapping[str, str]") -> Login | None:
    """Return the agent's answer, or None if it has none that is understood."""
    question = {"image": image} if image else {"registry": server.hosts[0]}
    body = dumps({"apiVersion": API_VERSION, "kind": "LookupRequest", **question})
    reply = ask_agent(find_socket(environ), "/v1/lookup", body.encode("utf-8", "surrogateescape"))
    if isinstance(reply, Fallback) or reply.status != 200:
        return None
    return _read_answer(reply.read_object(), server, is_image=bool(image))


def _read_answer(document: dict[str, object], server: "Server", *, is_image: bool) -> Login | None:
    if not _is_known(document, "LookupResponse" if is_image else "RegistryResponse"):
        return None
    if document.get("outcome") == LoginOutcome.AMBIGUOUS:
        candidates = document.get("candidates")
        return _ambiguous(server, [str(each) for each in candidates] if isinstance(candidates, list) else [])
    credentials = document.get("credentials")
    first = credentials[0] if isinstance(credentials, list) and credentials else None
    if not isinstance(first, dict):
        failures = document.get("failures")
        return (
            _failed_there(failures) if isinstance(failures, list) and failures else Login(LoginOutcome.NONE)
        )
    if not _lives_long(document.get("expiresAt")):
        note = f"the node agent's login for {server.hosts[0]} ends in less than {SHORTEST_LIFE_SECONDS} s"
        return Login(LoginOutcome.FAILED, note=f"{note}, and no provider config is here to get another")
    return _login(str(first.get("username", "")), str(first.get("password", "")))


def _is_known(document: dict[str, object], kind: str) -> bool:
    """Return whether an answer is one that this client understands; that of an image has no outcome."""
    return (
        document.get("apiVersion", API_VERSION) == API_VERSION
        and document.get("kind") == kind
        and document.get("outcome", LoginOutcome.FOUND) in list(LoginOutcome)
    )


def _lives_long(expires_at: object) -> bool:
    if not isinstance(expires_at, str):
        return True
    from datetime import datetime

    try:
        return datetime.fromisoformat(expires_at).timestamp() - time() >= SHORTEST_LIFE_SECONDS
    except ValueError:
        return False


def _look_up(server: "Server", image: str, told: Login | None) -> Login:
    """Look up in this process, as ``keyferry get`` does; *told* is why the agent's answer cannot be used.

    A run in this process may do better, and says why if it does not.
    """
    from keyferry.errors import ImageNameError, KeyferryError

    try:
        providers = load_configured()
    except KeyferryError as error:
        return told or Login(LoginOutcome.NONE, note=str(error))
    if not image:
        return _look_up_registry(server, providers)
    try:
        answer = providers.lookup(image, timeout_seconds=_SECONDS)
    except ImageNameError:
        return Login(LoginOutcome.NONE)
    if answer.credentials:
        return _login(answer.credentials[0].username, answer.credentials[0].password)
    return _failed(answer.failures) if answer.failures else Login(LoginOutcome.NONE)


def _look_up_registry(server: "Server", providers: "Providers") -> Login:
    from keyferry.images.registries import RegistryOutcome, lookup_registry

    found: RegistryAnswer | None = None
    for host in server.hosts:
        found = lookup_registry(providers, host, timeout_seconds=_SECONDS)
        if found.outcome is not RegistryOutcome.NONE:
            break
    if found is None or found.outcome is RegistryOutcome.NONE:
        return Login(LoginOutcome.NONE)
    if found.outcome is RegistryOutcome.FAILED:
        return _failed(found.failures)
    if found.credential is None:
        return _ambiguous(server, found.candidates)
    return _login(found.credential.username, found.credential.password)


def load_configured() -> "Providers":
    """Return the providers of this node; raise KeyferryError if there is no config, or it is broken."""
    from keyferry.images.load import load_providers

    return load_providers(timeout_seconds=_SECONDS)


def _login(username: str, secret: str) -> Login:
    if username == IDENTITY_TOKEN:
        # To docker's tools that name says that the secret is no password.
        return Login(
            LoginOutcome.NONE, note=f"the user name {IDENTITY_TOKEN!r} cannot be given to docker's tools"
        )
    return Login(LoginOutcome.FOUND, username, secret)


def _failed(failures: "Iterable[Failure]") -> Login:
    return Login(LoginOutcome.FAILED, note="; ".join(map(str, failures)))


def _failed_there(failures: list[object]) -> Login:
    messages = [str(each.get("message", "")) for each in failures if isinstance(each, dict)]
    return Login(
        LoginOutcome.FAILED, note="; ".join(filter(None, messages)) or "a plugin failed in the node agent"
    )


def _ambiguous(server: "Server", candidates: "Iterable[str]") -> Login:
    named = ", ".join(candidates)
    return Login(
        LoginOutcome.AMBIGUOUS,
        note=f"the login for {server.hosts[0]} depends on the image ({named}); set {IMAGE_VARIABLE} to the image, "
        "or use 'keyferry get IMAGE -o dockerconfig'",
    )
