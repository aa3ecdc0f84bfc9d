"""Tokens for the identity of the machine or service that the plugin runs on."""

from __future__ import annotations

import os

from keyferry._core.values import Value
from keyferry.sdk import HttpError, ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Reply, Retry
    from keyferry_plugins.azure.tokens import Token

__all__ = ["Identity", "choose_source", "request_identity_token"]

_IMDS = "http://169.254.169.254"
_IMDS_PATH = "/metadata/identity/oauth2/token"
HIMDS = "/opt/azcmagent/bin/himds"
_ARC = f"http://127.0.0.1:40342{_IMDS_PATH}"
_BAD_REQUEST, _NOT_FOUND, _GONE, _THROTTLED, _SERVER_ERROR = 400, 404, 410, 429, 500


class Identity(Value):
    """A user-assigned identity, by one of its IDs; all are empty for the system-assigned one."""

    client_id: str = ""
    resource_id: str = ""

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Return an identity by its resource ID, if *text* is one, or else by its client ID."""
        if "/subscriptions/" in text.lower():
            return cls(resource_id=text)
        return cls(client_id=text)

    def fields(self, client: str, resource: str) -> dict[str, str]:
        """Return the request parameters of the identity; *client* and *resource* are the source's names for them."""
        if self.client_id:
            return {client: self.client_id}
        return {resource: self.resource_id} if self.resource_id else {}

    def __str__(self) -> str:
        name = self.client_id or self.resource_id
        return f"the user-assigned identity {name!r}" if name else "the system-assigned identity"


class IdentityRequest(Value):
    """A request to a source: the token's *resource*, the *identity*, and the environment."""

    resource: str
    identity: Identity
    environ: Mapping[str, str]
    deadline: Deadline
    retry: Retry | None = None

    def fetch(self, url: str, headers: Mapping[str, str], fields: Mapping[str, str]) -> Reply:
        """Send a request to a local source, never through a proxy, and return the response."""
        from keyferry._net.forms import encode_query
        from keyferry.sdk.http import HttpOptions, Retry, fetch

        mark = "&" if "?" in url else "?"
        options = HttpOptions(use_proxy=False, connect_seconds=3.0)
        return fetch(
            "GET",
            f"{url}{mark}{encode_query(fields)}",
            deadline=self.deadline,
            headers=headers,
            retry=self.retry or Retry(attempts=5, is_transient=_is_transient),
            options=options,
        )


def request_identity_token(question: IdentityRequest) -> Token:
    """Return a token for a managed identity, from the source that the environment sets or else the machine's own."""
    from keyferry_plugins.azure.tokens import read_token

    reply = choose_source(question)(question)
    if not reply.is_success:
        raise _refused(reply, question)
    return read_token(reply)


def choose_source(question: IdentityRequest, himds: str = HIMDS) -> Callable[[IdentityRequest], Reply]:
    """Return the source on this machine, by the rules of Azure's own libraries."""
    environ = question.environ
    if environ.get("IDENTITY_ENDPOINT"):
        if environ.get("IDENTITY_HEADER"):
            return _service_fabric if environ.get("IDENTITY_SERVER_THUMBPRINT") else _app_service
        if environ.get("IMDS_ENDPOINT"):
            return _arc
    elif environ.get("MSI_ENDPOINT"):
        return _machine_learning if environ.get("MSI_SECRET") else _cloud_shell
    return _arc if os.path.exists(himds) else _imds


def _app_service(question: IdentityRequest) -> Reply:
    environ = question.environ
    fields = {"api-version": "2019-08-01", "resource": question.resource}
    fields |= question.identity.fields("client_id", "mi_res_id")
    return question.fetch(
        environ["IDENTITY_ENDPOINT"], {"X-IDENTITY-HEADER": environ["IDENTITY_HEADER"]}, fields
    )


def _machine_learning(question: IdentityRequest) -> Reply:
    environ = question.environ
    fields = {"api-version": "2017-09-01", "resource": question.resource}
    _refuse_resource_id(question.identity, "Azure ML")
    client_id = question.identity.client_id or environ.get("DEFAULT_IDENTITY_CLIENT_ID", "")
    fields |= {"clientid": client_id} if client_id else {}
    return question.fetch(environ["MSI_ENDPOINT"], {"secret": environ["MSI_SECRET"]}, fields)


def _cloud_shell(question: IdentityRequest) -> Reply:
    from keyferry._net.forms import encode_form
    from keyferry.sdk.http import HttpOptions, fetch

    _refuse_user_assigned(question.identity, "Cloud Shell")
    headers = {"Metadata": "true", "Content-Type": "application/x-www-form-urlencoded"}
    body = encode_form({"resource": question.resource})
    url = question.environ["MSI_ENDPOINT"]
    return fetch(
        "POST",
        url,
        deadline=question.deadline,
        headers=headers,
        body=body,
        options=HttpOptions(use_proxy=False),
    )


def _service_fabric(question: IdentityRequest) -> Reply:
    from keyferry_plugins.azure.service_fabric import ask_service_fabric

    _refuse_user_assigned(question.identity, "Service Fabric")
    fields = {"api-version": "2019-07-01-preview", "resource": question.resource}
    return ask_service_fabric(question.environ, fields, question.deadline)


def _arc(question: IdentityRequest) -> Reply:
    from keyferry_plugins.azure.arc import ask_arc

    _refuse_user_assigned(question.identity, "Azure Arc")
    url = question.environ.get("IDENTITY_ENDPOINT") or _ARC
    fields = {"api-version": "2020-06-01", "resource": question.resource}
    return ask_arc(lambda headers: question.fetch(url, headers, fields))


def _imds(question: IdentityRequest) -> Reply:
    base = question.environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", "")
    fields = {"api-version": "2018-02-01", "resource": question.resource}
    fields |= question.identity.fields("client_id", "msi_res_id")
    try:
        return question.fetch(f"{(base or _IMDS).rstrip('/')}{_IMDS_PATH}", {"Metadata": "true"}, fields)
    except HttpError as error:
        url, problem, is_timeout = error.url, error.problem, error.is_timeout
    raise HttpError(
        url,
        problem,
        "check that this machine is in Azure, and that this process can reach 169.254.169.254 without a proxy",
        is_timeout,
    )


def _is_transient(reply: Reply) -> bool:
    # The metadata service responds 404 and 410 while it is being updated.
    return reply.status in (408, _NOT_FOUND, _GONE, _THROTTLED) or reply.status >= _SERVER_ERROR


def _refuse_user_assigned(identity: Identity, place: str) -> None:
    if identity.client_id or identity.resource_id:
        raise ProvideError(
            f"{place} does not support user-assigned identities, but {identity} was requested",
            "leave the identity's ID out to use the system-assigned one",
        )


def _refuse_resource_id(identity: Identity, place: str) -> None:
    if identity.resource_id:
        raise ProvideError(f"{place} supports identities by client ID only", "give the client ID")


def _refused(reply: Reply, question: IdentityRequest) -> ProvideError:
    from keyferry_plugins.azure.entra import refusal

    said = refusal(reply, _secrets(question.environ))
    hint = "check that this process may use the machine's identity; a network policy or a metadata proxy can forbid it"
    if reply.status == _BAD_REQUEST:
        hint = (
            f"{question.identity} is probably not assigned to this machine; assign it:"
            " az vm identity assign, or az vmss identity assign, with --identities for a user-assigned one"
        )
    elif _is_transient(reply):
        hint = "the service may be busy; try again"
    return ProvideError(f"no token for {question.identity}: {said.message}", hint)


def _secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(environ[name] for name in ("IDENTITY_HEADER", "MSI_SECRET") if name in environ)
