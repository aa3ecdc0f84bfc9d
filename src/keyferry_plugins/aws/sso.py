"""Credentials of IAM Identity Center: those of a role, obtained with the token of ``aws sso login``."""

from __future__ import annotations

from keyferry._core.values import replace
from keyferry._net.forms import encode_query
from keyferry.sdk import ProvideError
from keyferry_plugins.aws.credentials import Credentials, read_credentials
from keyferry_plugins.aws.sso_tokens import SOURCE, SsoLogin, ask_portal, refused, service_url, usable_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry_plugins.aws.environment import Environment

__all__ = ["has_sso", "sso_credentials"]

_KEYS = ("sso_session", "sso_start_url", "sso_account_id", "sso_role_name")
_NAMES = ("accessKeyId", "secretAccessKey", "sessionToken")
_MILLISECONDS = 1000
# In milliseconds: beyond any expiry, and within what a float holds.
_LATEST = 1e15


def has_sso(section: Mapping[str, object]) -> bool:
    """Return whether a profile logs in by IAM Identity Center."""
    return any(key in section for key in _KEYS)


def sso_credentials(environment: Environment, profile: str) -> Credentials:
    """Return the credentials of the profile's role; raise ProvideError with the login command on failure."""
    login = _read_login(environment, profile)
    token = usable_token(environment, login)
    query = encode_query({"role_name": login.role_name, "account_id": login.account_id})
    url = f"{service_url(environment, 'sso', 'portal.sso', login.region)}/federation/credentials?{query}"
    reply = ask_portal(environment, "GET", url, {"x-amz-sso_bearer_token": token.access_token})
    if not reply.is_success:
        raise refused(reply, login, (token.access_token,))
    found = reply.json().get("roleCredentials")
    document = dict(found) if isinstance(found, dict) else {}
    source = f"{SOURCE} (role {login.role_name} in {login.account_id})"
    credentials = read_credentials(document, source, _NAMES)
    expiry = document.get("expiration")
    if isinstance(expiry, bool) or not isinstance(expiry, int | float) or not 0 <= expiry <= _LATEST:
        return credentials
    return replace(credentials, expires_at=expiry / _MILLISECONDS)


def _read_login(environment: Environment, profile: str) -> SsoLogin:
    section = environment.profile_section(profile)
    session = _text(section, "sso_session")
    shared: Mapping[str, object] = section
    if session:
        if session not in environment.profiles.sso_sessions:
            raise ProvideError(
                f"the AWS profile {profile!r} names the sso-session {session!r}, which does not exist"
            )
        shared = environment.profiles.sso_sessions[session]
    login = SsoLogin(
        profile,
        _text(shared, "sso_start_url"),
        _text(shared, "sso_region"),
        _text(section, "sso_account_id"),
        _text(section, "sso_role_name"),
        session or _text(shared, "sso_start_url"),
        bool(session),
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


def _text(section: Mapping[str, object], key: str) -> str:
    value = section.get(key, "")
    return value if isinstance(value, str) else ""
