"""Credentials from a program: ``credential_process`` of a profile, run without a shell."""

from __future__ import annotations

import os

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.credentials import NAMES, Credentials, read_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.aws.environment import Environment

__all__ = ["process_credentials"]


def process_credentials(environment: Environment, command: str, profile: str) -> Credentials:
    """Run *command*, split into words as a shell does but without expansion; raise ProvideError on failure."""
    from keyferry._core.json import loads
    from keyferry.sdk.process import run_program

    argv = _split(command, profile)
    finished = run_program(argv, deadline=environment.deadline, environ=environment.variables)
    source = f"credential_process of the AWS profile {profile!r} ({os.path.basename(argv[0])})"
    if finished.status != 0:
        raise ProvideError(
            f"{source} ended with status {finished.status}: {finished.complaint or 'no message'}"
        )
    document: object = None
    try:
        document = loads(finished.stdout)
    except Exception:  # noqa: BLE001, S110 - not chained, because it may contain the output
        pass
    if not isinstance(document, dict):
        raise ProvideError(f"{source} printed something that is not a JSON object")
    if document.get("Version") != 1:
        raise ProvideError(f"{source} printed no Version, or a Version other than 1")
    credentials = read_credentials(document, source, (*NAMES[:2], "SessionToken"))
    if credentials.expires_at is not None and credentials.expires_at <= environment.now():
        raise ProvideError(f"{source} printed credentials that have expired")
    return credentials


def _split(command: str, profile: str) -> list[str]:
    from shlex import split

    try:
        argv = split(command)
    except ValueError:
        argv = []
    if not argv:
        raise ProvideError(
            f"credential_process of the AWS profile {profile!r} cannot be split into words: check its quotes"
        )
    # There is no shell and so no expansion of variables and globs; only ``~`` is common in such commands.
    return [os.path.expanduser(argv[0]), *argv[1:]]
