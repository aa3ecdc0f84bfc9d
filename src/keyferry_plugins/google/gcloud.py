"""Tokens from the gcloud command: its arguments, and how its output is parsed."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import read_object
from keyferry._core.values import Value
from keyferry.sdk import Kind, ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.process import run_program
from keyferry_plugins.google.calls import Calls, check_token, told
from keyferry_plugins.oauth.answers import Token, object_of, read_time

_LOGIN = "run: gcloud auth login"


class GcloudCall(Value):
    """One way to request a token from gcloud: the command, and the arguments that select the token."""

    command: tuple[str, ...]
    extra: tuple[str, ...] = ()
    is_edge: bool = False

    @property
    def extra_text(self) -> str:
        """The extra arguments in the cache file's format."""
        return " ".join(self.extra)


def config_helper(*, project: str, account: str, impersonate: str, configuration: str) -> GcloudCall:
    """Return the call that requests a token of gcloud's account."""
    given = {
        "project": project,
        "account": account,
        "impersonate-service-account": impersonate,
        "configuration": configuration,
    }
    extra = tuple(f"--{name}={value}" for name, value in given.items() if value)
    return GcloudCall(command=("config", "config-helper", "--format=json"), extra=extra)


def edge_cloud(*, cluster: str, project: str, location: str, impersonate: str) -> GcloudCall:
    """Return the call that requests a token for a cluster of Distributed Cloud Edge."""
    if not (cluster and project and location):
        raise ProvideError("--use_edge_cloud needs --project, --location and --cluster")
    if cluster.startswith("-"):
        raise ProvideError("--cluster begins with a dash, which gcloud would take for a flag of its own")
    extra = [cluster, f"--project={project}", f"--location={location}", "--format=json"]
    if impersonate:
        extra.append(f"--impersonate-service-account={impersonate}")
    command = ("edge-cloud", "container", "clusters", "print-access-token")
    return GcloudCall(command=command, extra=tuple(extra), is_edge=True)


def gcloud_token(call: GcloudCall, calls: Calls) -> Token:
    """Run gcloud and return the token it prints; raise ProvideError, which quotes none of its output, on failure."""
    document = _run(call, calls)
    shown = f"gcloud {' '.join(call.command)}"
    if call.is_edge:
        found, ends = document.get("accessToken"), document.get("expireTime")
    else:
        credential = object_of(document, "credential")
        found, ends = credential.get("access_token"), credential.get("token_expiry")
    if not isinstance(found, str) or not found:
        raise ProvideError(f"{shown} printed no access token", _LOGIN)
    token = check_token(found, shown, "the access token")
    expires_at = read_time(ends)
    if expires_at is None:
        raise ProvideError(f"{shown} printed no expiry of the token", "run: gcloud components update")
    value = token if call.is_edge else _with_authorization(token, document)
    return Token(value=value, expires_at=expires_at, origin="gcloud")


def _run(call: GcloudCall, calls: Calls) -> Mapping[str, object]:
    shown = f"gcloud {' '.join(call.command)}"
    try:
        finished = run_program(
            ("gcloud", *call.command, *call.extra), deadline=calls.deadline, environ=calls.environ
        )
    except ProvideError as error:
        install = "install the Google Cloud CLI, or use --use_application_default_credentials"
        hint = install if error.kind is Kind.NOT_FOUND else _LOGIN
        raise ProvideError(error.message, hint, error.kind) from None
    if finished.status != 0:
        said = told(finished.stderr.decode("utf-8", "replace"), most=600)
        raise ProvideError(f"{shown} ended with status {finished.status}: {said or 'no message'}", _LOGIN)
    document = read_object(finished.stdout)
    if document is None:
        raise ProvideError(f"{shown} printed something that is not a JSON object", _LOGIN)
    return document


def _with_authorization(token: str, document: Mapping[str, object]) -> str:
    """Return the token, joined with that of the file in gcloud's property auth/authorization_token_file, if set."""
    node: object = document
    for name in ("configuration", "properties", "auth", "authorization_token_file"):
        node = node.get(name) if isinstance(node, dict) else None
    if not isinstance(node, str) or not node:
        return token
    second = read_bounded(node, "gcloud's auth/authorization_token_file").decode("utf-8", "replace").strip()
    return f"iam-{token}^{second}"
