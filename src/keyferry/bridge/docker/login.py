"""The server of a credential helper's question, and the login for it, wherever that is from."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from keyferry._core.docker_hub import ALIASES, HUB, IDENTITY_TOKEN
from keyferry._core.values import Value, field
from keyferry._net.agent import MAX_NAME_CHARACTERS

# An image to look up when a tool asks for its registry alone.
IMAGE_VARIABLE = "KEYFERRY_IMAGE"
_DEFAULT_PORTS = {"": "443", "https": "443", "http": "80"}
_VERSIONS = ("v1", "v2")
_HUB_NAMES = (HUB, *ALIASES)


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


def give_login(username: str, secret: str) -> Login:
    """Return a login that was found, unless docker's tools would take its secret for something else."""
    if username == IDENTITY_TOKEN:
        # To docker's tools that name says that the secret is no password.
        return Login(
            outcome=LoginOutcome.NONE,
            note=f"the user name {IDENTITY_TOKEN!r} cannot be given to docker's tools",
        )
    return Login(outcome=LoginOutcome.FOUND, username=username, secret=secret)


def ambiguous_login(server: Server, candidates: Iterable[str]) -> Login:
    """Return that the login depends on the image, with the cure."""
    named = ", ".join(candidates)
    return Login(
        outcome=LoginOutcome.AMBIGUOUS,
        note=f"the login for {server.hosts[0]} depends on the image ({named}); set {IMAGE_VARIABLE} to the image, "
        "or use 'keyferry get IMAGE -o dockerconfig'",
    )


def first_known(logins: Iterable[Login | None]) -> Login | None:
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
