"""The token file of ``aws sso login``: read, renewed if possible, and written back."""

from __future__ import annotations

import os

from keyferry._core.values import Value, field
from keyferry.sdk import ProvideError
from keyferry.sdk.http import Retry, fetch
from keyferry_plugins.aws.credentials import read_time, text_of
from keyferry_plugins.aws.endpoints import configured_endpoint
from keyferry_plugins.aws.failures import is_transient, read_refusal
from keyferry_plugins.aws.partitions import partition_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.http import Reply
    from keyferry_plugins.aws.environment import Environment

__all__ = ["SsoLogin", "Token", "ask_portal", "refused", "service_url", "usable_token"]

SOURCE = "IAM Identity Center"
# A token that expires this soon is renewed if possible; if the renewal fails, it is used.
_MARGIN_SECONDS = 300
_LOCK_SECONDS = 5.0
# Centuries: beyond the life of any token, and within what a date can say.
_LONGEST = 10_000_000_000
_NANOSECONDS = 1_000_000_000


class SsoLogin(Value):
    """A profile's login settings; *cache_name* is the text that the token's file name is derived from."""

    profile: str
    start_url: str
    region: str
    account_id: str
    role_name: str
    cache_name: str
    is_renewable: bool

    @property
    def advice(self) -> str:
        """The command by which the user obtains a new token."""
        return f"run 'aws sso login --profile {self.profile}'"


class Token(Value):
    """The cached token, and the document that contains it."""

    access_token: str = field(repr=False)
    expires_at: float
    document: Mapping[str, object] = field(repr=False)


def usable_token(environment: Environment, login: SsoLogin) -> Token:
    """Return the token of a login, renewed if it expires soon; raise ProvideError with the login command on failure."""
    path = _cache_path(environment, login)
    token = _read_token(path, login)
    now = environment.now()
    if token.expires_at - now > _MARGIN_SECONDS:
        return token
    try:
        return _renewed_token(environment, login, path)
    except ProvideError:
        if token.expires_at > now:
            return token
        raise


def _renewed_token(environment: Environment, login: SsoLogin, path: str) -> Token:
    from keyferry.sdk.files import Lock

    with Lock(path, environment.deadline.within(_LOCK_SECONDS)):
        # Another process may have renewed it first, and a refresh token can be used only once.
        token = _read_token(path, login)
        now = environment.now()
        if token.expires_at - now > _MARGIN_SECONDS:
            return token
        parts = {key: text_of(token.document, key) for key in ("clientId", "clientSecret", "refreshToken")}
        registered = _time(token.document.get("registrationExpiresAt"), path)
        if (
            not login.is_renewable
            or not all(parts.values())
            or (registered is not None and registered <= now)
        ):
            raise ProvideError(f"the login of the AWS profile {login.profile!r} has expired", login.advice)
        return _renew(environment, login, path, token, parts)


def _renew(
    environment: Environment, login: SsoLogin, path: str, token: Token, parts: dict[str, str]
) -> Token:
    from keyferry._core.json import dumps
    from keyferry.api.meta import format_time
    from keyferry.sdk.files import write_private

    body = dumps({**parts, "grantType": "refresh_token"}).encode()
    url = f"{service_url(environment, 'sso-oidc', 'oidc', login.region)}/token"
    reply = ask_portal(environment, "POST", url, {"Content-Type": "application/json"}, body)
    if not reply.is_success:
        raise refused(reply, login, tuple(parts.values()))
    answer = reply.json()
    seconds = answer.get("expiresIn")
    access = text_of(answer, "accessToken")
    if not access or isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 < seconds <= _LONGEST:
        raise ProvideError(f"{reply.url}: the response has no accessToken, or no expiresIn", login.advice)
    expires_at = int(environment.now()) + seconds
    document = {
        **token.document,
        "accessToken": access,
        "expiresAt": format_time(expires_at * _NANOSECONDS),
        "refreshToken": text_of(answer, "refreshToken") or parts["refreshToken"],
    }
    write_private(path, dumps(document).encode())
    return Token(access, expires_at, document)


def _read_token(path: str, login: SsoLogin) -> Token:
    from keyferry._core.json import loads
    from keyferry.sdk.files import read_bounded

    document: object = None
    if not os.path.exists(path):
        raise ProvideError(f"nobody has logged in to the AWS profile {login.profile!r}", login.advice)
    data = read_bounded(path, "the SSO token file")
    try:
        document = loads(data)
    except Exception:  # noqa: BLE001, S110 - not chained, because it contains the document
        pass
    found = document if isinstance(document, dict) else {}
    expires_at = _time(found.get("expiresAt"), path)
    if not text_of(found, "accessToken") or expires_at is None:
        raise ProvideError(f"the SSO token file {path!r} has no accessToken, or no expiresAt", login.advice)
    return Token(text_of(found, "accessToken"), expires_at, found)


def _time(value: object, path: str) -> float | None:
    # Old versions of the AWS CLI wrote "UTC" instead of "Z".
    clean = f"{value[:-3]}Z" if isinstance(value, str) and value.endswith("UTC") else value
    return read_time(clean, f"the SSO token file {path!r}")


def _cache_path(environment: Environment, login: SsoLogin) -> str:
    from hashlib import sha1

    name = sha1(login.cache_name.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
    return os.path.join(environment.home, ".aws", "sso", "cache", f"{name}.json")


def service_url(environment: Environment, service: str, prefix: str, region: str) -> str:
    """Return the base URL of a login service, without a trailing slash."""
    configured = configured_endpoint(environment, service)
    return configured.rstrip("/") or f"https://{prefix}.{region}.{partition_of(region).suffix}"


def ask_portal(
    environment: Environment, method: str, url: str, headers: dict[str, str], body: bytes = b""
) -> Reply:
    """Make an unsigned call and return the response."""
    return fetch(
        method,
        url,
        deadline=environment.deadline,
        headers=headers,
        body=body,
        retry=Retry(attempts=environment.attempts(), is_transient=is_transient),
        options=environment.http_options(),
    )


def refused(reply: Reply, login: SsoLogin, secrets: tuple[str, ...]) -> ProvideError:
    """Return the error to raise for an error response."""
    from keyferry.sdk.messages import shown

    refusal = read_refusal(reply)
    said = ": ".join(filter(None, (refusal.code, shown(refusal.message, known=secrets))))
    hint = login.advice
    if refusal.code == "ForbiddenException":
        hint = f"assign the role {login.role_name!r} of account {login.account_id} to the user"
    return ProvideError(
        f"{SOURCE} at {reply.url}: status {reply.status}" + (f", {said}" if said else ""), hint
    )
