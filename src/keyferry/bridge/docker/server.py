"""The server of a credential helper's question, in all spellings that docker's tools use."""

from __future__ import annotations

from keyferry._core.docker_hub import ALIASES, HUB
from keyferry._core.values import Value
from keyferry._net.agent import MAX_NAME_CHARACTERS

__all__ = ["Server", "parse_server"]

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
        return Server((HUB,), _trim(path))
    given = host + colon + port
    return Server((given, host) if is_default else (given,), _trim(path))


def _split_address(authority: str) -> tuple[str, str, str]:
    address, bracket, rest = authority.lower().partition("]")
    return address + bracket, rest[:1], rest[1:]


def _trim(path: str) -> str:
    """Return a path without slashes around it and without the version of an API."""
    first, _, rest = path.strip("/").partition("/")
    return rest.strip("/") if first in _VERSIONS else path.strip("/")
