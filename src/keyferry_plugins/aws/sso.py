"""IAM Identity Center: the credentials of a role, for the token of ``aws sso login``.

The token's file is read, renewed if possible, and written back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha1

from keyferry._core.json import dumps, read_object
from keyferry._core.values import Value, field, replace
from keyferry._net.forms import encode_query
from keyferry.api.meta import format_time
from keyferry.sdk import ProvideError
from keyferry.sdk.files import Lock, read_bounded
from keyferry.sdk.http import Reply, Retry, fetch
from keyferry_plugins.aws.calls import is_transient, read_refusal
from keyferry_plugins.aws.credentials import read_credentials, read_expiry
from keyferry_plugins.aws.endpoints import configured_endpoint, partition_of
from keyferry_plugins.aws.environment import Environment, text_in
from keyferry_plugins.oauth.answers import is_number, number_of, object_of, refused, token_of
from keyferry_plugins.oauth.store import save_document
from keyferry_plugins.signing.sigv4 import Credentials

_SOURCE = "IAM Identity Center"
# A token that expires this soon is renewed if possible; if the renewal fails, it is used.
_MARGIN_SECONDS = 300
_LOCK_SECONDS = 5.0
# Centuries: beyond the life of any token, and within what a date can say.
MAX_LIFETIME_SECONDS = 10_000_000_000
# Beyond any expiry, and within what a float holds.
MAX_EXPIRY_MILLISECONDS = 1e15
_NANOSECONDS = 1_000_000_000
_MILLISECONDS = 1000


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


def sso_credentials(environment: Environment, profile: str) -> Credentials:
    """Return the credentials of the profile's role; raise ProvideError with the login command on failure."""
    login = _read_login(environment, profile)
    token = _usable_token(environment, login)
    query = encode_query({"role_name": login.role_name, "account_id": login.account_id})
    url = f"{_service_url(environment, 'sso', 'portal.sso', login.region)}/federation/credentials?{query}"
    reply = _fetch(environment, "GET", url, {"x-amz-sso_bearer_token": token.access_token})
    if not reply.is_success:
        raise _refused(reply, login, (token.access_token,))
    document = object_of(reply.json(), "roleCredentials")
    credentials = read_credentials(
        document,
        f"{_SOURCE} (role {login.role_name} in {login.account_id})",
        ("accessKeyId", "secretAccessKey", "sessionToken"),
    )
    expiry = document.get("expiration")
    if not is_number(expiry) or not 0 <= expiry <= MAX_EXPIRY_MILLISECONDS:
        return credentials
    return replace(credentials, expires_at=expiry / _MILLISECONDS)


def _read_login(environment: Environment, profile: str) -> SsoLogin:
    section = environment.shared_config.profiles.get(profile, {})
    session = text_in(section, "sso_session")
    shared = section
    if session:
        if session not in environment.shared_config.sso_sessions:
            raise ProvideError(
                f"the AWS profile {profile!r} names the sso-session {session!r}, which does not exist"
            )
        shared = environment.shared_config.sso_sessions[session]
    login = SsoLogin(
        profile=profile,
        start_url=text_in(shared, "sso_start_url"),
        region=text_in(shared, "sso_region"),
        account_id=text_in(section, "sso_account_id"),
        role_name=text_in(section, "sso_role_name"),
        cache_name=session or text_in(shared, "sso_start_url"),
        is_renewable=bool(session),
    )
    for key, value in (
        ("sso_start_url", login.start_url),
        ("sso_region", login.region),
        ("sso_account_id", login.account_id),
        ("sso_role_name", login.role_name),
    ):
        if not value:
            raise ProvideError(f"the AWS profile {profile!r} has no {key}, which its login requires")
    return login


def _usable_token(environment: Environment, login: SsoLogin) -> Token:
    """Return the token of a login, renewed if it expires soon; raise ProvideError with the login command on failure."""
    name = sha1(login.cache_name.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
    path = os.path.join(environment.home, ".aws", "sso", "cache", f"{name}.json")
    token = read_token(path, login)
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
    with Lock(path, environment.deadline.within(_LOCK_SECONDS)):
        # Another process may have renewed it first, and a refresh token can be used only once.
        token = read_token(path, login)
        now = environment.now()
        if token.expires_at - now > _MARGIN_SECONDS:
            return token
        parts = {key: token_of(token.document, key) for key in ("clientId", "clientSecret", "refreshToken")}
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
    body = dumps({**parts, "grantType": "refresh_token"}).encode()
    url = f"{_service_url(environment, 'sso-oidc', 'oidc', login.region)}/token"
    reply = _fetch(environment, "POST", url, {"Content-Type": "application/json"}, body)
    if not reply.is_success:
        raise _refused(reply, login, tuple(parts.values()))
    answer = reply.json()
    seconds = int(number_of(answer, "expiresIn") or 0)
    access = token_of(answer, "accessToken")
    if not access or not 0 < seconds <= MAX_LIFETIME_SECONDS:
        raise ProvideError(f"{reply.url}: the response has no accessToken, or no expiresIn", login.advice)
    expires_at = int(environment.now()) + seconds
    document = {
        **token.document,
        "accessToken": access,
        "expiresAt": format_time(expires_at * _NANOSECONDS),
        "refreshToken": token_of(answer, "refreshToken") or parts["refreshToken"],
    }
    save_document(path, document)
    return Token(access_token=access, expires_at=expires_at, document=document)


def read_token(path: str, login: SsoLogin) -> Token:
    """Return the token in a file; raise ProvideError, which quotes none of it, on failure."""
    if not os.path.exists(path):
        raise ProvideError(f"nobody has logged in to the AWS profile {login.profile!r}", login.advice)
    document = read_object(read_bounded(path, "the SSO token file")) or {}
    expires_at = _time(document.get("expiresAt"), path)
    access = token_of(document, "accessToken")
    if not access or expires_at is None:
        raise ProvideError(f"the SSO token file {path!r} has no accessToken, or no expiresAt", login.advice)
    return Token(access_token=access, expires_at=expires_at, document=document)


def _time(value: object, path: str) -> float | None:
    # Old versions of the AWS CLI wrote "UTC" instead of "Z".
    clean = f"{value[:-3]}Z" if isinstance(value, str) and value.endswith("UTC") else value
    return read_expiry(clean, f"the SSO token file {path!r}")


def _service_url(environment: Environment, service: str, prefix: str, region: str) -> str:
    """Return the base URL of a login service, without a trailing slash."""
    configured = configured_endpoint(environment, service)
    return configured.rstrip("/") or f"https://{prefix}.{region}.{partition_of(region).suffix}"


def _fetch(
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


def _refused(reply: Reply, login: SsoLogin, secrets: tuple[str, ...]) -> ProvideError:
    """Return the error to raise for an error response."""
    refusal = read_refusal(reply)
    said = refusal.text(secrets)
    hint = login.advice
    if refusal.code == "ForbiddenException":
        hint = f"assign the role {login.role_name!r} of account {login.account_id} to the user"
    return refused(
        reply, f"{_SOURCE} at {reply.url}: status {reply.status}" + (f", {said}" if said else ""), hint
    )
