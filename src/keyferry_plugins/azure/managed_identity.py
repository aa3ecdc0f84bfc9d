"""Tokens for the identity of the machine or service that the plugin runs on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from keyferry._core.values import Value, field
from keyferry._net.http_errors import split_url
from keyferry.sdk import Deadline, HttpError, ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.http import ONCE, HttpOptions, Reply, Retry, Thumbprint, fetch
from keyferry_plugins.azure.entra import read_token, refusal
from keyferry_plugins.oauth.answers import Token, refused
from keyferry_plugins.oauth.calls import post_form, with_query

# The program of Azure Arc's agent, and the folder of its key files.
ARC_AGENT = "/opt/azcmagent/bin/himds"
ARC_KEYS = "/var/opt/azcmagent/tokens"
MAX_KEY_BYTES = 4096
MAX_FABRIC_BYTES = 1 << 20
_PATH = "/metadata/identity/oauth2/token"
_IMDS = "http://169.254.169.254"
_ARC = f"http://127.0.0.1:40342{_PATH}"
_THUMBPRINT = "IDENTITY_SERVER_THUMBPRINT"


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
    environ: Mapping[str, str] = field(repr=False)
    deadline: Deadline
    retry: Retry | None = None

    def fetch(self, url: str, headers: Mapping[str, str], fields: Mapping[str, str]) -> Reply:
        """Send a request to a local source, never through a proxy, and return the response."""
        return fetch(
            "GET",
            with_query(url, fields),
            deadline=self.deadline,
            headers=headers,
            retry=self.retry or Retry(attempts=5, is_transient=_is_transient),
            options=HttpOptions(use_proxy=False, connect_seconds=3.0),
        )


def request_identity_token(question: IdentityRequest) -> Token:
    """Return a token for a managed identity, from the source that the environment sets or else the machine's own."""
    reply = _choose_source(question.environ)(question)
    if not reply.is_success:
        raise _refused(reply, question)
    return read_token(reply)


def _choose_source(environ: Mapping[str, str]) -> Callable[[IdentityRequest], Reply]:
    """Return the source on this machine, by the rules of Azure's own libraries."""
    if environ.get("IDENTITY_ENDPOINT"):
        if environ.get("IDENTITY_HEADER"):
            return _service_fabric if environ.get("IDENTITY_SERVER_THUMBPRINT") else _app_service
        if environ.get("IMDS_ENDPOINT"):
            return _arc
    elif environ.get("MSI_ENDPOINT"):
        return _machine_learning if environ.get("MSI_SECRET") else _cloud_shell
    return _arc if os.path.exists(ARC_AGENT) else _imds


def _app_service(question: IdentityRequest) -> Reply:
    environ = question.environ
    fields = {"api-version": "2019-08-01", "resource": question.resource}
    fields |= question.identity.fields("client_id", "mi_res_id")
    return question.fetch(
        environ["IDENTITY_ENDPOINT"], {"X-IDENTITY-HEADER": environ["IDENTITY_HEADER"]}, fields
    )


def _machine_learning(question: IdentityRequest) -> Reply:
    environ = question.environ
    if question.identity.resource_id:
        raise ProvideError("Azure ML supports identities by client ID only", "give the client ID")
    fields = {"api-version": "2017-09-01", "resource": question.resource}
    client_id = question.identity.client_id or environ.get("DEFAULT_IDENTITY_CLIENT_ID", "")
    fields |= {"clientid": client_id} if client_id else {}
    return question.fetch(environ["MSI_ENDPOINT"], {"secret": environ["MSI_SECRET"]}, fields)


def _cloud_shell(question: IdentityRequest) -> Reply:
    _refuse_user_assigned(question.identity, "Cloud Shell")
    return post_form(
        question.environ["MSI_ENDPOINT"],
        {"resource": question.resource},
        deadline=question.deadline,
        headers={"Metadata": "true"},
        options=HttpOptions(use_proxy=False),
    )


def _service_fabric(question: IdentityRequest) -> Reply:
    """Ask the node's token service, whose certificate is self-signed; the secret is sent only if it matches."""
    _refuse_user_assigned(question.identity, "Service Fabric")
    environ = question.environ
    endpoint = environ["IDENTITY_ENDPOINT"].partition("#")[0]
    origin = split_url(endpoint)
    if origin.scheme != "https" or origin.user_info:
        raise HttpError("IDENTITY_ENDPOINT", "is not an https:// URL")
    return fetch(
        "GET",
        with_query(endpoint, {"api-version": "2019-07-01-preview", "resource": question.resource}),
        deadline=question.deadline,
        headers={"Secret": environ["IDENTITY_HEADER"], "Accept": "application/json"},
        retry=ONCE,
        options=HttpOptions(
            use_proxy=False,
            thumbprint=Thumbprint(digest=environ[_THUMBPRINT], setting=_THUMBPRINT),
            most_bytes=MAX_FABRIC_BYTES,
        ),
    )


def _arc(question: IdentityRequest) -> Reply:
    """Ask Azure Arc's agent on a machine outside Azure, which checks that the caller can read a file that it names."""
    _refuse_user_assigned(question.identity, "Azure Arc")
    url = question.environ.get("IDENTITY_ENDPOINT") or _ARC
    fields = {"api-version": "2020-06-01", "resource": question.resource}
    headers = {"Metadata": "true"}
    reply = question.fetch(url, headers, fields)
    if reply.status != 401:
        return reply
    key = _read_arc_key(_arc_key_path(reply))
    return question.fetch(url, {**headers, "Authorization": f"Basic {key}"}, fields)


def _arc_key_path(reply: Reply) -> str:
    for challenge in reply.values("www-authenticate"):
        scheme, _, rest = challenge.partition(" ")
        name, mark, path = rest.strip().partition("=")
        if scheme.lower() == "basic" and name.strip().lower() == "realm" and mark:
            return path.strip().strip('"')
    raise ProvideError(f"{reply.url}: answered status 401 without the name of a key file")


def _read_arc_key(path: str) -> str:
    """Return the key in the file that the agent names; a file outside the agent's folder is not read."""
    if os.path.dirname(path) != ARC_KEYS or not path.endswith(".key"):
        raise ProvideError(f"Azure Arc: the key file that the agent names is not a .key file in {ARC_KEYS}")
    try:
        text = read_bounded(path, "Azure Arc's key file", MAX_KEY_BYTES).decode("ascii", "replace")
    except ProvideError as error:
        problem = error.message
    else:
        if not text or not (text.isascii() and text.isprintable()):
            raise ProvideError(f"Azure Arc's key file {path!r} holds no key")
        return text
    raise ProvideError(problem, "add the user that runs this to the group 'himds', or run it as root")


def _imds(question: IdentityRequest) -> Reply:
    base = question.environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", "")
    fields = {"api-version": "2018-02-01", "resource": question.resource}
    fields |= question.identity.fields("client_id", "msi_res_id")
    try:
        return question.fetch(f"{(base or _IMDS).rstrip('/')}{_PATH}", {"Metadata": "true"}, fields)
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
    return reply.status in (404, 408, 410, 429) or reply.status >= 500


def _refuse_user_assigned(identity: Identity, place: str) -> None:
    if identity.client_id or identity.resource_id:
        raise ProvideError(
            f"{place} does not support user-assigned identities, but {identity} was requested",
            "leave the identity's ID out to use the system-assigned one",
        )


def _refused(reply: Reply, question: IdentityRequest) -> ProvideError:
    environ = question.environ
    secrets = tuple(environ[name] for name in ("IDENTITY_HEADER", "MSI_SECRET") if name in environ)
    said = refusal(reply, secrets)
    hint = "check that this process may use the machine's identity; a network policy or a metadata proxy can forbid it"
    if reply.status == 400:
        hint = (
            f"{question.identity} is probably not assigned to this machine; assign it:"
            " az vm identity assign, or az vmss identity assign, with --identities for a user-assigned one"
        )
    elif _is_transient(reply):
        hint = "the service may be busy; try again"
    return refused(reply, f"no token for {question.identity}: {said.message}", hint)
