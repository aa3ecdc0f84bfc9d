"""Service account impersonation: exchange one credential's token for a token of another account."""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.google.answers import check_token, expiry, refusal
from keyferry_plugins.google.calls import Token, check_endpoint, post_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.google.calls import Calls

__all__ = ["impersonate", "impersonation_url", "principal"]

_LIFE_SECONDS = 3600
_FORBIDDEN, _NOT_FOUND = 403, 404


def impersonation_url(email: str) -> str:
    """Return the URL that issues tokens of a service account."""
    from keyferry._net.forms import encode_percent

    account = encode_percent(email, safe="@")
    return (
        f"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{account}:generateAccessToken"
    )


def principal(url: str) -> str:
    """Return the e-mail address in an impersonation URL, or an empty string."""
    _, _, rest = url.partition("/serviceAccounts/")
    email, mark, _ = rest.rpartition(":generateAccessToken")
    return email if mark and "@" in email and "/" not in email else ""


def impersonate(
    calls: Calls,
    url: str,
    source: Token,
    scopes: tuple[str, ...],
    *,
    where: str,
    life_seconds: int = _LIFE_SECONDS,
    delegates: tuple[str, ...] = (),
) -> Token:
    """Return a token of the account that *url* names, requested with the token *source*."""
    document: dict[str, object] = {"lifetime": f"{life_seconds}s", "scope": list(scopes)}
    if delegates:
        document["delegates"] = list(delegates)
    account = principal(url) or "the account"
    what = f"no token for the service account {account!r}"
    bearer = {"Authorization": f"Bearer {source.value}"}
    reply = post_json(calls, check_endpoint(url, where), document, bearer)
    if not reply.is_success:
        raise refusal(reply, what, _advice(reply.status, account, source.origin), (source.value,))
    answer = reply.json()
    value = check_token(answer.get("accessToken"), what, f"{reply.url}: accessToken")
    expires_at = expiry(answer.get("expireTime"))
    if expires_at is None:
        raise ProvideError(f"{what}: {reply.url}: expireTime is missing or not a time")
    return Token(value, expires_at, "impersonated_service_account")


def _advice(status: int, account: str, origin: str) -> str:
    if status == _NOT_FOUND:
        return f"check that the service account {account} exists and the IAM Service Account Credentials API is on"
    if status == _FORBIDDEN and origin == "external_account":
        return f"grant roles/iam.workloadIdentityUser on {account} to the federated principal"
    if status == _FORBIDDEN:
        return f"grant roles/iam.serviceAccountTokenCreator on {account} to the account behind the source credentials"
    return "check the file's service_account_impersonation_url, delegates and lifetime"
