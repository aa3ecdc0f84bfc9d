"""Tokens for an application in exchange for another issuer's: a pod's, a GitHub action's or an Azure pipeline's."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.http import Reply, Retry, fetch
from keyferry.sdk.messages import shown
from keyferry_plugins.azure.entra import (
    Application,
    EntraError,
    assertion_fields,
    read_token,
    request_token,
)
from keyferry_plugins.oauth.answers import Token, is_visible, refused
from keyferry_plugins.oauth.calls import ask_github, check_https, with_query
from keyferry_plugins.signing.jose import read_claims

MAX_BYTES = 1 << 16
_AUDIENCE = "api://AzureADTokenExchange"
_NO_RECORD = ("AADSTS70021", "AADSTS700211", "AADSTS700212", "AADSTS700213")


def exchange_assertion(
    application: Application,
    assertion: str,
    scope: str,
    *,
    deadline: Deadline,
    retry: Retry | None = None,
) -> Token:
    """Return a token for *scope*, in exchange for a token of an issuer that the application trusts."""
    fields = {"grant_type": "client_credentials", "scope": scope, **assertion_fields(assertion)}
    try:
        return request_token(application, fields, deadline=deadline, secrets=(assertion,), retry=retry)
    except EntraError as error:
        if error.number not in _NO_RECORD:
            raise
        refusal = error
    said = _describe(assertion)
    hint = f"add a federated credential to {application.client_id!r}" + (f" with {said}" if said else "")
    raise refusal.with_hint(hint)


def _describe(assertion: str) -> str:
    """Return the issuer, subject and audience that a federated credential must have; empty if the token is opaque."""
    try:
        claims = read_claims(assertion)
    except ProvideError:
        return ""
    audience = claims.get("aud")
    known = {
        "issuer": claims.get("iss"),
        "subject": claims.get("sub"),
        "audience": ", ".join(map(str, audience)) if isinstance(audience, list) else audience,
    }
    return ", ".join(
        f"{name} {shown(value, 200, (assertion,))!r}" for name, value in known.items() if value is not None
    )


def read_token_file(path: str, what: str) -> str:
    """Return the token in a file, without surrounding whitespace."""
    token = read_bounded(path, what, MAX_BYTES).decode("ascii", "replace").strip()
    if not token or not is_visible(token):
        raise ProvideError(
            f"{what} {path!r} holds no token", "the pod needs a projected service account token there"
        )
    return token


def read_workload_assertion(token_file: str, environ: Mapping[str, str], deadline: Deadline) -> str:
    """Return the token that identifies this workload: GitHub's in an action, or else the one in a file."""
    token, url = (environ.get(f"ACTIONS_ID_TOKEN_REQUEST_{name}", "") for name in ("TOKEN", "URL"))
    if token and url:
        reply = ask_github(check_https(url, "ACTIONS_ID_TOKEN_REQUEST_URL"), token, _AUDIENCE, deadline)
        return _read_oidc_token(
            reply, "value", "grant the job 'id-token: write' in the workflow's permissions"
        )
    if not token_file:
        raise ProvideError(
            "login workloadidentity needs a token file, but none is given",
            "set AZURE_FEDERATED_TOKEN_FILE or --federated-token-file; in a GitHub action, grant 'id-token: write'",
        )
    return read_token_file(token_file, "the federated token file")


def ask_pipelines(connection_id: str, environ: Mapping[str, str], deadline: Deadline) -> str:
    """Return the OIDC token of the current Azure pipeline, for one of its service connections."""
    for variable in ("SYSTEM_ACCESSTOKEN", "SYSTEM_OIDCREQUESTURI"):
        if not environ.get(variable):
            raise ProvideError(
                f"login azurepipelines: {variable} is not set",
                "map it in the step's env: SYSTEM_ACCESSTOKEN: $(System.AccessToken)",
            )
    url = check_https(environ["SYSTEM_OIDCREQUESTURI"], "SYSTEM_OIDCREQUESTURI")
    query = {"api-version": "7.1", "serviceConnectionId": connection_id}
    headers = {
        "Authorization": f"Bearer {environ['SYSTEM_ACCESSTOKEN']}",
        "X-TFS-FedAuthRedirect": "Suppress",
        "Content-Type": "application/json",
    }
    reply = fetch("POST", with_query(url, query), deadline=deadline, headers=headers)
    return _read_oidc_token(reply, "oidcToken", "check that the pipeline may use this service connection")


def _read_oidc_token(reply: Reply, name: str, hint: str) -> str:
    if reply.status != 200:  # success; a sign-in page comes with 203
        raise refused(reply, f"{reply.url}: answered status {reply.status}, expected a token", hint)
    return read_token(reply, name).value
