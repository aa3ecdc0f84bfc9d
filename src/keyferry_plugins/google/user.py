"""Credentials of people: exchange a refresh token for an access token."""

from __future__ import annotations

from binascii import b2a_base64

from keyferry_plugins.google.answers import access_token, refusal
from keyferry_plugins.google.calls import check_endpoint, post_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.google.calls import Calls, Token
    from keyferry_plugins.google.credential_file import CredentialFile

__all__ = ["basic_authorization", "user_token"]

_GOOGLE = "https://oauth2.googleapis.com/token"
_WORKFORCE = "https://sts.googleapis.com/v1/oauthtoken"


def user_token(credentials: CredentialFile, calls: Calls) -> Token:
    """Return a token for a person who logged in with Google or through a workforce pool."""
    kind = credentials.text("type")
    client_id, secret, refresh = (
        credentials.need(name) for name in ("client_id", "client_secret", "refresh_token")
    )
    form = {"grant_type": "refresh_token", "refresh_token": refresh}
    if kind == "authorized_user":
        url, headers = _GOOGLE, {}
        form |= {"client_id": client_id, "client_secret": secret}
    else:
        # Endpoints other than Google's receive the client's secret only in a header.
        url = check_endpoint(credentials.text("token_url", _WORKFORCE), f"{credentials.where}: token_url")
        headers = basic_authorization(client_id, secret)
    what = "no token for the user of the application default credentials"
    reply = post_form(calls, url, form, headers)
    if not reply.is_success:
        hint = "log in again: gcloud auth application-default login"
        raise refusal(reply, what, hint, (secret, refresh))
    return access_token(reply, calls, what, kind)


def basic_authorization(name: str, secret: str) -> dict[str, str]:
    """Return the header that authenticates an OAuth client."""
    pair = b2a_base64(f"{name}:{secret}".encode(), newline=False).decode()
    return {"Authorization": f"Basic {pair}"}
