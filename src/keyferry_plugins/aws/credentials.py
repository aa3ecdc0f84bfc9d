"""AWS credentials in variables, from a program, and in the JSON responses of other sources."""

from __future__ import annotations

import os
from collections.abc import Mapping

from keyferry._core.json import read_object
from keyferry.sdk import ProvideError
from keyferry.sdk.process import run_program
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.oauth.answers import is_visible, read_time, token_of
from keyferry_plugins.signing.sigv4 import Credentials


def variable_credentials(environment: Environment) -> Credentials | None:
    """Return the keys in environment variables, or None unless both are set."""
    key = environment.variable("AWS_ACCESS_KEY_ID") or environment.variable("AWS_ACCESS_KEY")
    secret = environment.variable("AWS_SECRET_ACCESS_KEY") or environment.variable("AWS_SECRET_KEY")
    token = environment.variable("AWS_SESSION_TOKEN")
    if not key or not secret:
        return None
    if not is_visible(key + token):
        raise ProvideError(
            "AWS_ACCESS_KEY_ID or AWS_SESSION_TOKEN contains whitespace or another character that is not"
            " valid in a header",
            "set it again, without stray characters from copying",
        )
    return Credentials(
        access_key_id=key, secret_access_key=secret, session_token=token, source="environment variables"
    )


def process_credentials(environment: Environment, command: str, profile: str) -> Credentials:
    """Run the credential_process of a profile, without a shell; raise ProvideError on failure."""
    argv = _split(command, profile)
    finished = run_program(argv, deadline=environment.deadline, environ=environment.variables)
    source = f"credential_process of the AWS profile {profile!r} ({os.path.basename(argv[0])})"
    if finished.status != 0:
        raise ProvideError(
            f"{source} ended with status {finished.status}: {finished.complaint or 'no message'}"
        )
    document = read_object(finished.stdout)
    if document is None:
        raise ProvideError(f"{source} printed something that is not a JSON object")
    if document.get("Version") != 1:
        raise ProvideError(f"{source} printed no Version, or a Version other than 1")
    credentials = read_credentials(document, source, ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    if credentials.expires_at is not None and credentials.expires_at <= environment.now():
        raise ProvideError(f"{source} printed credentials that have expired")
    return credentials


def _split(command: str, profile: str) -> list[str]:
    """Split a command into words as a shell does; of a shell's expansions only ``~`` is done, which is common here."""
    from shlex import split

    try:
        argv = split(command)
    except ValueError:
        argv = []
    if not argv:
        raise ProvideError(
            f"credential_process of the AWS profile {profile!r} cannot be split into words: check its quotes"
        )
    return [os.path.expanduser(argv[0]), *argv[1:]]


def read_credentials(
    document: Mapping[str, object],
    source: str,
    names: tuple[str, str, str] = ("AccessKeyId", "SecretAccessKey", "Token"),
) -> Credentials:
    """Return the credentials in a JSON object; *names* are the members for key, secret and session token.

    Raise ProvideError, which quotes no value, if a member is missing.
    """
    key, secret, token = (token_of(document, name) for name in names)
    for name, value in zip(names, (key, secret), strict=False):
        if not value:
            raise ProvideError(f"the response of {source} has no {name}")
    return Credentials(
        access_key_id=key,
        secret_access_key=secret,
        session_token=token,
        expires_at=read_expiry(document.get("Expiration"), source),
        source=source,
    )


def read_expiry(value: object, source: str) -> float | None:
    """Return an RFC 3339 time in Unix seconds, or None if there is none; raise ProvideError if it is invalid."""
    expires_at = read_time(value)
    if expires_at is None and value not in (None, ""):
        raise ProvideError(f"the response of {source} has an Expiration that is not an RFC 3339 time")
    return expires_at
