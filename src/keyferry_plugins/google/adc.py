"""Application default credentials: where they are found, and the exchange that each type of file needs."""

from __future__ import annotations

import os

from keyferry._core.json import dumps
from keyferry._net.forms import encode_percent
from keyferry.sdk import ProvideError
from keyferry_plugins.google.calls import (
    ACCESS_TOKEN_TYPE,
    CLOUD_PLATFORM,
    EXCHANGE_GRANT,
    STS_URL,
    Calls,
    access_token,
    check_endpoint,
    check_token,
    refusal,
)
from keyferry_plugins.google.credential_file import CredentialFile, load_credential_file, principal
from keyferry_plugins.google.metadata import fetch_metadata_token, is_on_gce
from keyferry_plugins.oauth.answers import Token, read_time
from keyferry_plugins.oauth.calls import basic_authorization
from keyferry_plugins.signing.jose import sign_jwt

VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_FILE = "application_default_credentials.json"
# A chain of two impersonations is unusual; a longer one is a mistake.
_MAX_DEPTH = 3
_TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_WORKFORCE_URL = "https://sts.googleapis.com/v1/oauthtoken"
_WORKFORCE_POOLS = "/workforcePools/"
_JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFE_SECONDS, _MIN_LIFE_SECONDS, _MAX_LIFE_SECONDS = 3600, 600, 43200
# Assertions are backdated, so that a clock that is slightly ahead does not make them from the future.
_AGO_SECONDS = 10
_FORBIDDEN, _NOT_FOUND = 403, 404


def default_token(calls: Calls, scopes: tuple[str, ...]) -> Token:
    """Return a token of the application default credentials, found in the order of Google's libraries."""
    path = explicit_file(calls) or well_known_file(calls)
    if path:
        return token_from_file(calls, path, scopes)
    if is_on_gce(calls):
        return fetch_metadata_token(calls, scopes)
    raise none_found()


def none_found() -> ProvideError:
    """Return the error for a machine with neither a credential file nor a metadata server."""
    return ProvideError(
        "there are no application default credentials: no file was found, and this machine is not on Google Cloud",
        f"set {VARIABLE} to a credential file, or run: gcloud auth application-default login",
    )


def explicit_file(calls: Calls) -> str:
    """Return the file that the environment sets, or an empty string; there is no fallback if that file fails."""
    return calls.setting(VARIABLE)


def well_known_file(calls: Calls) -> str:
    """Return the path of the file that gcloud writes, or an empty string if it does not exist."""
    # Only Google's newer libraries support CLOUDSDK_CONFIG.
    folder = "" if calls.is_compat else calls.setting("CLOUDSDK_CONFIG")
    path = os.path.join(folder or gcloud_folder(calls), _FILE)
    return path if os.path.exists(path) else ""


def gcloud_folder(calls: Calls) -> str:
    """Return the user's default folder of gcloud settings, ignoring CLOUDSDK_CONFIG."""
    if os.name == "nt":
        return os.path.join(calls.setting("APPDATA"), "gcloud")
    home = calls.setting("HOME") or os.path.expanduser("~")
    return os.path.join(home, ".config", "gcloud")


def token_from_file(calls: Calls, path: str, scopes: tuple[str, ...]) -> Token:
    """Return a token for the credentials in a file."""
    return token_from(load_credential_file(path), calls, scopes)


def token_from(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...], depth: int = 1) -> Token:
    """Return a token for credentials of any type that Google's tools write."""
    kind = credentials.text("type")
    if kind == "service_account":
        return _service_account_token(credentials, calls, scopes)
    if kind in ("authorized_user", "external_account_authorized_user"):
        return _user_token(credentials, calls)
    if kind == "external_account":
        return _external_account_token(credentials, calls, scopes)
    if kind == "impersonated_service_account":
        return _impersonated(credentials, calls, scopes, depth)
    raise _unknown(credentials, kind)


def _impersonated(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...], depth: int) -> Token:
    source = credentials.part("source_credentials")
    if source is None:
        raise ProvideError(f"{credentials.where}: source_credentials is missing", "create the file again")
    if depth >= _MAX_DEPTH:
        raise ProvideError(
            f"{credentials.where}: more than {_MAX_DEPTH} service accounts impersonate each other"
        )
    url = credentials.need("service_account_impersonation_url")
    return impersonate(
        calls,
        url,
        token_from(source, calls, scopes, depth + 1),
        scopes,
        where=f"{credentials.where}: service_account_impersonation_url",
        delegates=credentials.texts("delegates"),
    )


def _unknown(credentials: CredentialFile, kind: str) -> ProvideError:
    if "installed" in credentials.members or "web" in credentials.members:
        return ProvideError(
            f"{credentials.where}: it contains an OAuth client, which is not a credential",
            "run: gcloud auth application-default login --client-id-file=FILE",
        )
    return ProvideError(
        f"{credentials.where}: type is {kind[:60]!r}, expected service_account, authorized_user, external_account,"
        " external_account_authorized_user or impersonated_service_account"
    )


def _service_account_token(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...]) -> Token:
    """Return a token for the service account whose key the file contains."""
    email = credentials.need("client_email")
    url = check_endpoint(credentials.text("token_uri", _TOKEN_URL), f"{credentials.where}: token_uri")
    assertion = _assertion(credentials, email, url, scopes, int(calls.now()) - _AGO_SECONDS)
    what = f"no token for the service account {email!r}"
    reply = calls.post_form(url, {"grant_type": _JWT_GRANT, "assertion": assertion})
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


def _user_token(credentials: CredentialFile, calls: Calls) -> Token:
    """Return a token for a person who logged in with Google or through a workforce pool."""
    kind = credentials.text("type")
    client_id, secret, refresh = (
        credentials.need(name) for name in ("client_id", "client_secret", "refresh_token")
    )
    form = {"grant_type": "refresh_token", "refresh_token": refresh}
    if kind == "authorized_user":
        url, headers = _TOKEN_URL, {}
        form |= {"client_id": client_id, "client_secret": secret}
    else:
        # Endpoints other than Google's receive the client's secret only in a header.
        url = check_endpoint(credentials.text("token_url", _WORKFORCE_URL), f"{credentials.where}: token_url")
        headers = {"Authorization": basic_authorization(client_id, secret)}
    what = "no token for the user of the application default credentials"
    reply = calls.post_form(url, form, headers)
    if not reply.is_success:
        hint = "log in again: gcloud auth application-default login"
        raise refusal(reply, what, hint, (secret, refresh))
    return access_token(reply, calls, what, kind)


def _external_account_token(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...]) -> Token:
    """Return a token for an external account, or for the service account that it impersonates."""
    url = credentials.text("service_account_impersonation_url")
    if not url:
        return _federated_token(credentials, calls, scopes)
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
    if not _MIN_LIFE_SECONDS <= seconds <= _MAX_LIFE_SECONDS:
        raise ProvideError(
            f"{credentials.where}: service_account_impersonation.token_lifetime_seconds is {seconds},"
            f" expected {_MIN_LIFE_SECONDS} to {_MAX_LIFE_SECONDS}"
        )
    return seconds


def _federated_token(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...]) -> Token:
    from keyferry_plugins.google.subject_tokens import subject_token

    url = check_endpoint(credentials.text("token_url", STS_URL), f"{credentials.where}: token_url")
    form = {
        "audience": credentials.need("audience"),
        "grant_type": EXCHANGE_GRANT,
        "requested_token_type": ACCESS_TOKEN_TYPE,
        "subject_token_type": credentials.need("subject_token_type"),
        "scope": " ".join(scopes),
    }
    client_id, secret = credentials.text("client_id"), credentials.text("client_secret")
    headers = {"Authorization": basic_authorization(client_id, secret)} if client_id and secret else {}
    project = _billed_project(credentials)
    # Client authentication implies the project; Google rejects a request with both.
    if project and not headers:
        form["options"] = dumps({"userProject": project})
    form["subject_token"] = subject_token(credentials, calls)
    what = "no token for the external account"
    reply = calls.post_form(url, form, headers)
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


def _billed_project(credentials: CredentialFile) -> str:
    project = credentials.text("workforce_pool_user_project")
    if project and _WORKFORCE_POOLS not in credentials.need("audience"):
        raise ProvideError(
            f"{credentials.where}: workforce_pool_user_project is set, but the audience is not a workforce pool"
        )
    return project


def impersonation_url(email: str) -> str:
    """Return the URL that issues tokens of a service account."""
    account = encode_percent(email, safe="@")
    return (
        f"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{account}:generateAccessToken"
    )


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
    reply = calls.post_json(check_endpoint(url, where), document, bearer)
    if not reply.is_success:
        raise refusal(reply, what, _advice(reply.status, account, source.origin), (source.value,))
    answer = reply.json()
    value = check_token(answer.get("accessToken"), what, f"{reply.url}: accessToken")
    expires_at = read_time(answer.get("expireTime"))
    if expires_at is None:
        raise ProvideError(f"{what}: {reply.url}: expireTime is missing or not a time")
    return Token(value=value, expires_at=expires_at, origin="impersonated_service_account")


def _advice(status: int, account: str, origin: str) -> str:
    if status == _NOT_FOUND:
        return f"check that the service account {account} exists and the IAM Service Account Credentials API is on"
    if status == _FORBIDDEN and origin == "external_account":
        return f"grant roles/iam.workloadIdentityUser on {account} to the federated principal"
    if status == _FORBIDDEN:
        return f"grant roles/iam.serviceAccountTokenCreator on {account} to the account behind the source credentials"
    return "check the file's service_account_impersonation_url, delegates and lifetime"
