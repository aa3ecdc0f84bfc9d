"""External accounts: exchange another identity provider's token for one of Google's."""

from __future__ import annotations

from keyferry._core.json import dumps
from keyferry.sdk import ProvideError
from keyferry_plugins.google.calls import CLOUD_PLATFORM, check_endpoint
from keyferry_plugins.google.exchange import GRANT, STS_URL, WANTED, exchange_subject_token
from keyferry_plugins.google.user import basic_authorization

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.google.calls import Calls, Token
    from keyferry_plugins.google.credential_file import CredentialFile

__all__ = ["external_account_token"]

_LIFE_SECONDS = 3600
_SHORTEST, _LONGEST = 600, 43200
_WORKFORCE = "/workforcePools/"


def external_account_token(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...]) -> Token:
    """Return a token for an external account, or for the service account that it impersonates."""
    url = credentials.text("service_account_impersonation_url")
    if not url:
        return _federated_token(credentials, calls, scopes)
    from keyferry_plugins.google.impersonation import impersonate

    return impersonate(
        calls,
        url,
        _federated_token(credentials, calls, (CLOUD_PLATFORM,)),
        scopes,
        where=f"{credentials.where}: service_account_impersonation_url",
        life_seconds=_life(credentials),
    )


def _life(credentials: CredentialFile) -> int:
    settings = credentials.part("service_account_impersonation")
    seconds = settings.number("token_lifetime_seconds", _LIFE_SECONDS) if settings else _LIFE_SECONDS
    if not _SHORTEST <= seconds <= _LONGEST:
        raise ProvideError(
            f"{credentials.where}: service_account_impersonation.token_lifetime_seconds is {seconds},"
            f" expected {_SHORTEST} to {_LONGEST}"
        )
    return seconds


def _federated_token(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...]) -> Token:
    from keyferry_plugins.google.sources import subject_token

    url = check_endpoint(credentials.text("token_url", STS_URL), f"{credentials.where}: token_url")
    form = {
        "audience": credentials.need("audience"),
        "grant_type": GRANT,
        "requested_token_type": WANTED,
        "subject_token_type": credentials.need("subject_token_type"),
        "scope": " ".join(scopes),
    }
    headers = _authorization(credentials)
    project = _billed_project(credentials)
    # Client authentication implies the project; Google rejects a request with both.
    if project and not headers:
        form["options"] = dumps({"userProject": project})
    form["subject_token"] = subject_token(credentials, calls)
    return exchange_subject_token(calls, url, form, headers)


def _authorization(credentials: CredentialFile) -> dict[str, str]:
    client_id, secret = credentials.text("client_id"), credentials.text("client_secret")
    return basic_authorization(client_id, secret) if client_id and secret else {}


def _billed_project(credentials: CredentialFile) -> str:
    project = credentials.text("workforce_pool_user_project")
    if project and _WORKFORCE not in credentials.need("audience"):
        raise ProvideError(
            f"{credentials.where}: workforce_pool_user_project is set, but the audience is not a workforce pool"
        )
    return project
