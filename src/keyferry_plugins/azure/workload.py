"""Log in as a workload: a pod, a GitHub action, or an Azure pipeline."""

from __future__ import annotations

from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Reply
    from keyferry_plugins.azure.options import Options

__all__ = ["ask_github", "ask_pipelines", "read_workload_assertion"]

_AUDIENCE = "api://AzureADTokenExchange"


def read_workload_assertion(options: Options, environ: Mapping[str, str], deadline: Deadline) -> str:
    """Return the token that identifies this workload: GitHub's in an action, or else the one in a file."""
    from keyferry_plugins.azure.federation import read_token_file

    token, url = (environ.get(f"ACTIONS_ID_TOKEN_REQUEST_{name}", "") for name in ("TOKEN", "URL"))
    if token and url:
        return ask_github(url, token, deadline)
    if not options.token_file:
        raise ProvideError(
            "login workloadidentity needs a token file, but none is given",
            "set AZURE_FEDERATED_TOKEN_FILE or --federated-token-file; in a GitHub action, grant 'id-token: write'",
        )
    return read_token_file(options.token_file, "the federated token file")


def ask_github(url: str, request_token: str, deadline: Deadline) -> str:
    """Return the OIDC token of the current GitHub action."""
    from keyferry._net.forms import encode_query
    from keyferry.sdk.http import fetch
    from keyferry_plugins.azure.tokens import check_https

    mark = "&" if "?" in check_https(url, "ACTIONS_ID_TOKEN_REQUEST_URL") else "?"
    headers = {
        "Authorization": f"bearer {request_token}",
        "Accept": "application/json; api-version=2.0",
        "Content-Type": "application/json",
    }
    reply = fetch(
        "GET", f"{url}{mark}{encode_query({'audience': _AUDIENCE})}", deadline=deadline, headers=headers
    )
    return _read(reply, "value", "grant the job 'id-token: write' in the workflow's permissions")


def ask_pipelines(connection_id: str, environ: Mapping[str, str], deadline: Deadline) -> str:
    """Return the OIDC token of the current Azure pipeline, for one of its service connections."""
    from keyferry._net.forms import encode_query
    from keyferry.sdk.http import fetch
    from keyferry_plugins.azure.tokens import check_https

    for variable in ("SYSTEM_ACCESSTOKEN", "SYSTEM_OIDCREQUESTURI"):
        if not environ.get(variable):
            raise ProvideError(
                f"login azurepipelines: {variable} is not set",
                "map it in the step's env: SYSTEM_ACCESSTOKEN: $(System.AccessToken)",
            )
    url = check_https(environ["SYSTEM_OIDCREQUESTURI"], "SYSTEM_OIDCREQUESTURI")
    query = encode_query({"api-version": "7.1", "serviceConnectionId": connection_id})
    headers = {
        "Authorization": f"Bearer {environ['SYSTEM_ACCESSTOKEN']}",
        "X-TFS-FedAuthRedirect": "Suppress",
        "Content-Type": "application/json",
    }
    mark = "&" if "?" in url else "?"
    reply = fetch("POST", f"{url}{mark}{query}", deadline=deadline, headers=headers)
    return _read(reply, "oidcToken", "check that the pipeline may use this service connection")


def _read(reply: Reply, name: str, hint: str) -> str:
    from keyferry_plugins.azure.tokens import read_token

    if reply.status != 200:  # success; a sign-in page comes with 203
        raise ProvideError(f"{reply.url}: answered status {reply.status}, expected a token", hint)
    return read_token(reply, name).access_token
