"""The login for a server, or why there is none, wherever the answer is from."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.docker_hub import IDENTITY_TOKEN
from keyferry._core.values import Value, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from keyferry.bridge.docker.server import Server

__all__ = ["IMAGE_VARIABLE", "Login", "LoginOutcome", "ambiguous_login", "first_known", "give_login"]

# An image to look up when a tool asks for its registry alone.
IMAGE_VARIABLE = "KEYFERRY_IMAGE"


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
            LoginOutcome.NONE, note=f"the user name {IDENTITY_TOKEN!r} cannot be given to docker's tools"
        )
    return Login(LoginOutcome.FOUND, username, secret)


def ambiguous_login(server: Server, candidates: Iterable[str]) -> Login:
    """Return that the login depends on the image, with the cure."""
    named = ", ".join(candidates)
    return Login(
        LoginOutcome.AMBIGUOUS,
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
    return Login(LoginOutcome.NONE) if is_complete else None
