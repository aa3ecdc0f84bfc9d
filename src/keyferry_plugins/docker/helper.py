"""Docker's credential helpers: programs that read a server's URL and print a login."""

from __future__ import annotations

import os

from keyferry._core.docker_hub import HUB, IDENTITY_TOKEN, is_hub_host
from keyferry._core.json import read_object
from keyferry._net.url import UrlSyntaxError, split_registry_url
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.messages import shown
from keyferry.sdk.process import run_program
from keyferry_plugins.docker.config import Login
from keyferry_plugins.oauth.answers import is_visible

PREFIX = "docker-credential-"
_NOT_FOUND = "credentials not found in native keychain"


def program_of(helper: str) -> str:
    """Return the program of a helper: ``docker-credential-NAME`` from PATH, or an absolute path."""
    if os.path.isabs(helper) and not helper.endswith("/"):
        return helper
    name = helper.removeprefix(PREFIX)
    if (
        not name
        or name[0] in ".-"
        or not all(char.isascii() and (char.isalnum() or char in "._-") for char in name)
    ):
        raise ProvideError(
            f"helper {helper[:80]!r} is neither a name of letters, digits, '.', '_' and '-' nor an absolute path",
            f"for a program {PREFIX}NAME on PATH give its NAME",
        )
    return PREFIX + name


def check_server_url(url: str) -> str:
    """Return *url* if it is one line with a host and no user info; raise ProvideError otherwise."""
    # A helper reads one line: it would misread or log any text after a line break.
    if not url or not is_visible(url):
        raise ProvideError("the server's URL is empty, or has blanks, control or non-ASCII characters")
    # Anywhere, as a password may contain a slash. Not quoted: before the '@' may be a password.
    if "@" in url:
        raise ProvideError(
            "the server's URL contains user info, which is not passed to a helper", "remove the user info"
        )
    if not host_of(url).partition(":")[0]:
        raise ProvideError(f"the server's URL {url[:200]!r} has no host")
    return url


def host_of(url: str) -> str:
    """Return host and port of a server's URL, with or without a scheme; all names of Docker Hub are equal."""
    try:
        host = split_registry_url(url.rpartition("://")[2])[0].lower()
    except UrlSyntaxError:
        return ""
    return HUB if is_hub_host(host) else host


def ask_helper(helper: str, server_url: str, deadline: Deadline) -> Login | None:
    """Return a helper's login for a server, or None if it has none; raise ProvideError on any other outcome."""
    program = program_of(helper)
    name = os.path.basename(program)
    done = run_program([program, "get"], stdin=check_server_url(server_url).encode(), deadline=deadline)
    if done.status != 0:
        # By the protocol a helper prints its error on standard output.
        said = done.stdout.decode("utf-8", "replace").strip()
        if said == _NOT_FOUND:
            return None
        raise _failure(name, done.status, said, done.complaint)
    return _read_answer(name, server_url, done.stdout)


def _failure(name: str, status: int, said: str, complaint: str) -> ProvideError:
    # Output that looks like a login is never shown, whatever the exit status.
    reason = "its output is not shown, as it may hold a secret" if "{" in said else shown(said, 200)
    return ProvideError(
        f"{name} get failed with status {status}: {' | '.join(filter(None, (reason, complaint))) or 'no message'}",
        f"try it: echo SERVER | {name} get",
    )


def _read_answer(name: str, server_url: str, stdout: bytes) -> Login | None:
    fields = _read_fields(name, stdout)
    server, username, secret = (_text(name, fields, field) for field in ("ServerURL", "Username", "Secret"))
    if server and host_of(server) != host_of(server_url):
        raise ProvideError(
            f"{name} was asked for {host_of(server_url)!r} and answered for {shown(host_of(server), 100)!r}",
            "its login is not used: it would be sent to a registry it is not for",
        )
    if not username and not secret:
        return None
    if username == IDENTITY_TOKEN:
        raise ProvideError(
            f"{name} has an identity token for {host_of(server_url)!r}, which the kubelet's protocol cannot carry",
            "log in with a user name and a password, or an access token as the password",
        )
    if not username or not secret:
        raise ProvideError(f"{name} answered with {'no user name' if secret else 'no secret'}")
    return Login(username=username, password=secret)


def _read_fields(name: str, stdout: bytes) -> dict[str, object]:
    text = ""
    try:
        text = stdout.decode()
    except UnicodeDecodeError:
        pass
    document = read_object(text)
    # Raised outside the handler: the caught exception contains the response.
    if document is None:
        raise ProvideError(f"{name} get ended with status 0 and wrote something that is not a JSON object")
    return document


def _text(name: str, fields: dict[str, object], wanted: str) -> str:
    value = next((value for key, value in fields.items() if key.lower() == wanted.lower()), None)
    if value is not None and not isinstance(value, str):
        raise ProvideError(f"{name} answered with a {wanted} that is not a string")
    return value or ""
