"""Requests to the issuer's token endpoint, and its tokens or error responses."""

from __future__ import annotations

from keyferry._core.values import Value, field
from keyferry._net.forms import encode_form, encode_form_text
from keyferry.sdk import ProvideError
from keyferry.sdk.http import ONCE, Retry, fetch
from keyferry.sdk.messages import shown
from keyferry_plugins.openid.discovery import http_options
from keyferry_plugins.openid.fields import number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Reply
    from keyferry_plugins.openid.discovery import Issuer
    from keyferry_plugins.openid.options import Options

__all__ = ["Refusal", "Tokens", "ask_tokens", "explain", "read_refusal", "scope_of", "send"]

BASIC, BODY = "client_secret_basic", "client_secret_post"
_UNAUTHORIZED = 401
_HINTS = {
    "invalid_client": "compare the client at the issuer with --oidc-client-id and --oidc-client-secret",
    "unauthorized_client": "allow this grant for the client at the issuer, or choose another --grant-type",
    "unsupported_grant_type": "enable this grant at the issuer, or choose another --grant-type",
    "invalid_scope": "check --oidc-extra-scope against the scopes that the client may ask for",
    "invalid_grant": "check the user name and password, or log in again",
    "access_denied": "log in again, and approve",
    "expired_token": "run it again, and enter the code in time",
}


class Tokens(Value):
    """The tokens in a response of the token endpoint."""

    id_token: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_in: float | None = None


class Refusal(Value):
    """An error response: its status, and OAuth's error code and description, if any."""

    url: str
    status: int
    code: str = ""
    description: str = ""


def scope_of(options: Options, *, is_for_client: bool = False) -> str:
    """Return the scopes to request: the user's, and openid, which is needed for an ID token.

    Many issuers reject openid for client credentials, so it is left out for a client that needs an access
    token.
    """
    with_openid = not is_for_client or not options.use_access_token or options.is_compat
    return " ".join(dict.fromkeys([*options.scopes, *(["openid"] if with_openid else [])]))


def ask_tokens(
    issuer: Issuer,
    options: Options,
    fields: Mapping[str, str],
    deadline: Deadline,
    retry: Retry = ONCE,
) -> Tokens | Refusal:
    """Request tokens as the configured client.

    There is no retry by default: issuers treat a code or refresh token that is sent twice as stolen.
    """
    reply = send(issuer, options, fields, deadline, url=issuer.token_endpoint, retry=retry)
    return _read_tokens(reply) if reply.is_success else read_refusal(reply, options)


def send(
    issuer: Issuer,
    options: Options,
    fields: Mapping[str, str],
    deadline: Deadline,
    *,
    url: str,
    retry: Retry = ONCE,
) -> Reply:
    """Send a form, authenticated as the client; try the supported methods until one is accepted."""
    *others, last = _ways(issuer, options, fields.get("grant_type", ""))
    for way in others:
        reply = _post(url, fields, options, deadline, way, retry)
        if reply.is_success or not _is_unknown(read_refusal(reply, options)):
            return reply
    return _post(url, fields, options, deadline, last, retry)


def _post(  # noqa: PLR0917 - the parts of a request
    url: str, fields: Mapping[str, str], options: Options, deadline: Deadline, way: str, retry: Retry
) -> Reply:
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    form = dict(fields)
    if way == BASIC:
        headers["Authorization"] = _basic(options)
    else:
        form["client_id"] = options.client_id
        if options.client_secret:
            form["client_secret"] = options.client_secret
    headers |= options.headers
    body = encode_form(form)
    return fetch(
        "POST", url, headers=headers, body=body, deadline=deadline, retry=retry, options=http_options(options)
    )


def _is_unknown(refusal: Refusal) -> bool:
    """Return whether the client itself was rejected, and not its request."""
    return refusal.code == "invalid_client" or (not refusal.code and refusal.status == _UNAUTHORIZED)


def read_refusal(reply: Reply, options: Options) -> Refusal:
    """Return the error in a response, from OAuth's fields only and without secrets."""
    code = description = ""
    try:
        document = reply.json()
    except ProvideError:
        document = {}
    if isinstance(document.get("error"), str):
        code = shown(document["error"], 60, options.secrets)
    if isinstance(document.get("error_description"), str):
        description = shown(document["error_description"], 300, options.secrets)
    return Refusal(reply.url, reply.status, code, description)


def explain(refusal: Refusal, what: str) -> ProvideError:
    """Return an error that states *what* was refused, the reason, and a hint."""
    if not refusal.code:
        return ProvideError(f"{refusal.url}: refused {what} with status {refusal.status} and gave no reason")
    why = f"{refusal.code} ({refusal.description})" if refusal.description else refusal.code
    return ProvideError(f"{refusal.url}: refused {what}: {why}", _HINTS.get(refusal.code, ""))


def _ways(issuer: Issuer, options: Options, grant: str) -> tuple[str, ...]:
    if not options.client_secret:
        return (BODY,)
    if options.is_compat:
        return {"client_credentials": (BASIC,), "": (BODY,)}.get(grant, (BASIC, BODY))
    if not issuer.client_auth:
        return BASIC, BODY
    ways = tuple(way for way in (BASIC, BODY) if way in issuer.client_auth)
    if not ways:
        raise ProvideError(
            f"the issuer {issuer.url!r} does not accept a client secret, only {', '.join(issuer.client_auth)[:200]}",
            "leave out --oidc-client-secret if the client is public",
        )
    return ways


def _basic(options: Options) -> str:
    from binascii import b2a_base64

    # OAuth requires form encoding first, so that a colon in the ID is not the separator.
    parts = [encode_form_text(part) for part in (options.client_id, options.client_secret)]
    return f"Basic {b2a_base64(':'.join(parts).encode(), newline=False).decode()}"


def _read_tokens(reply: Reply) -> Tokens:
    document = reply.json()
    names = ("id_token", "access_token", "refresh_token")
    texts = [document.get(name) for name in names]
    for name, text in zip(names, texts, strict=True):
        if text is not None and (not isinstance(text, str) or any(not " " < char < "\x7f" for char in text)):
            raise ProvideError(f"{reply.url}: {name} in its response is not a string of visible ASCII")
    id_token, access_token, refresh_token = (text if isinstance(text, str) else "" for text in texts)
    return Tokens(id_token, access_token, refresh_token, number_of(document, "expires_in"))
