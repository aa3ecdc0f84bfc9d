"""``docker-credential-keyferry``: the node's plugin credentials for docker and every tool that has its helpers.

The protocol is docker's: a verb as the argument, the question on standard input, the answer or the error on standard
output, and status 1 for any error. Notes for people go to standard error.
"""

from __future__ import annotations

import os
import sys

from keyferry import __version__
from keyferry._core.docker_hub import HUB, LOGIN_URL
from keyferry._core.json import dumps, loads
from keyferry._core.secrets import printable
from keyferry.bridge.docker_login import LoginOutcome, find_login, is_served, list_registries, parse_server
from keyferry.errors import DocumentError, EnvironmentProblem
from keyferry.show.writer import Guard, hold_descriptors, report, write_exact

_NAME = "docker-credential-keyferry"
_NOT_FOUND = "credentials not found in native keychain"
_NO_SERVER = "no credentials server URL"
_MAX_BYTES = 1 << 20
_CHUNK = 65536
_VERSION = f"{_NAME} (keyferry) v{__version__}"
_USAGE = f"Usage: {_NAME} <store|get|erase|list|version>"


class _RefusedError(Exception):
    """An answer that is an error: its text on standard output."""


def main() -> None:
    """Run the helper."""
    hold_descriptors()
    with Guard():
        try:
            status, text = 0, _answer(sys.argv[1:])
        except _RefusedError as error:
            status, text = 1, str(error)
        try:
            write_exact(f"{text}\n".encode("utf-8", "surrogateescape") if text else b"")
        except BrokenPipeError:  # the reader of the answer is gone
            status = 1
        except EnvironmentProblem as error:
            report(error)
            status = 1
    sys.exit(status)


def _answer(words: list[str]) -> str:
    if len(words) != 1:
        raise _RefusedError(_USAGE)
    verb = words[0]
    if verb in ("-h", "--help"):
        return _USAGE
    if verb in ("-v", "--version", "version"):
        return _VERSION
    if verb not in _VERBS:
        raise _RefusedError(f"{_NAME}: unknown action: {printable(verb)}")
    return _VERBS[verb]()


def _read() -> str:
    """Return standard input, which is one URL or one document."""
    chunks: list[bytes] = []
    while sum(map(len, chunks)) <= _MAX_BYTES:
        chunk = os.read(0, _CHUNK)
        if not chunk:
            return b"".join(chunks).decode("utf-8", "surrogateescape").strip()
        chunks.append(chunk)
    raise _RefusedError(f"{_NAME}: the request has more than {_MAX_BYTES} bytes")


def _get() -> str:
    url = _read()
    if not url:
        raise _RefusedError(_NO_SERVER)
    server = parse_server(url)
    if server is None:
        raise _RefusedError(_NOT_FOUND)
    login = find_login(server)
    if login.outcome is LoginOutcome.FAILED:
        raise _RefusedError(f"{_NAME}: {printable(login.note)}")
    if login.note:
        report(login.note)
    if login.outcome is not LoginOutcome.FOUND:
        raise _RefusedError(_NOT_FOUND)
    return dumps({"ServerURL": url, "Username": login.username, "Secret": login.secret})


def _list() -> str:
    """List the hosts that a pattern names exactly; docker asks for each of them, and one error fails all."""
    # The user name would need a run of the plugin; docker's tools do not use it.
    hosts, note = list_registries()
    if note:
        report(note)
    return dumps({LOGIN_URL if host == HUB else host: "" for host in hosts})


def _store() -> str:
    document: object = None
    try:
        document = loads(_read())
    except DocumentError:
        pass
    url = document.get("ServerURL") if isinstance(document, dict) else None
    return _accept(url if isinstance(url, str) else "", "stored")


def _erase() -> str:
    return _accept(_read(), "erased")


def _accept(url: str, what: str) -> str:
    """Accept a login or logout for a registry that providers serve; nothing is stored or erased."""
    if not url:
        raise _RefusedError(_NO_SERVER)
    server = parse_server(url)
    if server is None or not is_served(server):
        raise _RefusedError(
            f"{_NAME}: nothing is {what}: no credential provider of this node is for this registry; use another "
            "credential helper for it, or none"
        )
    return ""


_VERBS = {"get": _get, "list": _list, "store": _store, "erase": _erase}
