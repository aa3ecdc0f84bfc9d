"""Tokens for an application in exchange for another issuer's token."""

from __future__ import annotations

from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Retry
    from keyferry_plugins.azure.entra import Application
    from keyferry_plugins.azure.tokens import Token

__all__ = ["describe_assertion", "exchange_assertion", "read_token_file"]

_MOST_BYTES = 1 << 16
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
    from keyferry_plugins.azure.entra import EntraError, assertion_fields, request_token

    fields = {"grant_type": "client_credentials", "scope": scope, **assertion_fields(assertion)}
    try:
        return request_token(application, fields, deadline=deadline, secrets=(assertion,), retry=retry)
    except EntraError as error:
        if error.number not in _NO_RECORD:
            raise
        refused = error
    said = describe_assertion(assertion)
    hint = f"add a federated credential to {application.client_id!r}" + (f" with {said}" if said else "")
    raise EntraError(refused.message, hint, refused.error, refused.number)


def describe_assertion(assertion: str) -> str:
    """Return the issuer, subject and audience that a federated credential must have; empty if the token is opaque."""
    from keyferry.sdk.messages import shown
    from keyferry_plugins.signing.jose import read_claims

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
    from keyferry.sdk.files import read_bounded

    data = read_bounded(path, what, _MOST_BYTES)
    token = data.decode("ascii", "replace").strip()
    if not token or any(not " " < char < "\x7f" for char in token):
        raise ProvideError(
            f"{what} {path!r} holds no token", "the pod needs a projected service account token there"
        )
    return token
