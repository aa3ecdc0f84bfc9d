"""Google's security token service: exchange a foreign token for an access token (RFC 8693)."""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.google.answers import access_token, refusal
from keyferry_plugins.google.calls import CLOUD_PLATFORM, post_form, post_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry_plugins.google.calls import Calls, Token

__all__ = ["STS_URL", "exchange_account_token", "exchange_subject_token", "pull_request"]

STS_URL = "https://sts.googleapis.com/v1/token"
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
WANTED = "urn:ietf:params:oauth:token-type:access_token"
_JWT = "urn:ietf:params:oauth:token-type:jwt"


def pull_request(project: str, provider: str, subject_token: str) -> dict[str, object]:
    """Return the request to the service for a Kubernetes service account of a GKE workload identity pool."""
    return {
        "audience": f"identitynamespace:{project}.svc.id.goog:{provider}",
        "grant_type": GRANT,
        "requested_token_type": WANTED,
        "scope": CLOUD_PLATFORM,
        "subject_token": subject_token,
        "subject_token_type": _JWT,
    }


def exchange_account_token(calls: Calls, project: str, provider: str, subject_token: str) -> Token:
    """Return a federated token for a Kubernetes service account's token."""
    what = "no token for the pod's service account"
    reply = post_json(calls, STS_URL, pull_request(project, provider, subject_token))
    if not reply.is_success:
        hint = (
            f"check that --identity-provider and --project-id name the cluster's pool and that the kubelet's config has"
            f" serviceAccountTokenAudience {project}.svc.id.goog; the principal needs roles/artifactregistry.reader"
        )
        raise refusal(reply, what, hint, (subject_token,))
    return access_token(reply, calls, what, "workload_identity")


def exchange_subject_token(
    calls: Calls, url: str, form: Mapping[str, str], headers: Mapping[str, str]
) -> Token:
    """Return a federated token for the subject token of an external account."""
    what = "no token for the external account"
    reply = post_form(calls, url, form, headers)
    if not reply.is_success:
        hint = (
            "check that the file's audience names the pool and provider, and that the provider's issuer,"
            " allowed audiences and attribute condition accept this token"
        )
        raise refusal(reply, what, hint, (form["subject_token"], *headers.values()))
    token = access_token(reply, calls, what, "external_account")
    if token.expires_at is None:
        raise ProvideError(f"{what}: {reply.url}: expires_in is missing or not a positive number of seconds")
    return token
