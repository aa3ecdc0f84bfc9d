"""Service account keys: exchange a signed assertion for an access token."""

from __future__ import annotations

from keyferry_plugins.google.answers import access_token, refusal
from keyferry_plugins.google.calls import check_endpoint, post_form
from keyferry_plugins.signing.jose import sign_jwt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.google.calls import Calls, Token
    from keyferry_plugins.google.credential_file import CredentialFile

__all__ = ["service_account_token"]

_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# Backdated, so that a clock that is slightly ahead does not make assertions from the future.
_AGO_SECONDS, _LIFE_SECONDS = 10, 3600


def service_account_token(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...]) -> Token:
    """Return a token for the service account whose key the file contains."""
    email = credentials.need("client_email")
    url = check_endpoint(credentials.text("token_uri", _TOKEN_URI), f"{credentials.where}: token_uri")
    assertion = _assertion(credentials, email, url, scopes, int(calls.now()) - _AGO_SECONDS)
    what = f"no token for the service account {email!r}"
    reply = post_form(calls, url, {"grant_type": _GRANT, "assertion": assertion})
    if not reply.is_success:
        hint = (
            "check that the account is enabled, its key not deleted, and this machine's clock right;"
            " 'gcloud iam service-accounts keys list' shows the keys"
        )
        raise refusal(reply, what, hint, (assertion,))
    return access_token(reply, calls, what, "service_account")


def _assertion(
    credentials: CredentialFile, email: str, url: str, scopes: tuple[str, ...], issued: int
) -> str:
    header: dict[str, object] = {"typ": "JWT"}
    if credentials.text("private_key_id"):
        header["kid"] = credentials.text("private_key_id")
    claims: dict[str, object] = {
        "iss": email,
        "scope": " ".join(scopes),
        "aud": url,
        "exp": issued + _LIFE_SECONDS,
        "iat": issued,
    }
    return sign_jwt(header, claims, credentials.need("private_key"), "RS256")
