"""Application default credentials: where they are found, and which exchange each type of file needs."""

from __future__ import annotations

import os

from keyferry.sdk import ProvideError
from keyferry_plugins.google.credential_file import CredentialFile, load_credential_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.google.calls import Calls, Token

__all__ = ["default_token", "explicit_file", "token_from_file", "well_known_file"]

VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_FILE = "application_default_credentials.json"
# A chain of two impersonations is unusual; a longer one is a mistake.
_DEEPEST = 3


def default_token(calls: Calls, scopes: tuple[str, ...]) -> Token:
    """Return a token of the application default credentials, found in the order of Google's libraries."""
    path = explicit_file(calls) or well_known_file(calls)
    if path:
        return token_from_file(calls, path, scopes)
    from keyferry_plugins.google.metadata import fetch_metadata_token, is_on_gce

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
        from keyferry_plugins.google.service_account import service_account_token

        return service_account_token(credentials, calls, scopes)
    if kind in ("authorized_user", "external_account_authorized_user"):
        from keyferry_plugins.google.user import user_token

        return user_token(credentials, calls)
    if kind == "external_account":
        from keyferry_plugins.google.external_account import external_account_token

        return external_account_token(credentials, calls, scopes)
    if kind == "impersonated_service_account":
        return _impersonated(credentials, calls, scopes, depth)
    raise _unknown(credentials, kind)


def _impersonated(credentials: CredentialFile, calls: Calls, scopes: tuple[str, ...], depth: int) -> Token:
    from keyferry_plugins.google.impersonation import impersonate

    source = credentials.part("source_credentials")
    if source is None:
        raise ProvideError(f"{credentials.where}: source_credentials is missing", "create the file again")
    if depth >= _DEEPEST:
        raise ProvideError(
            f"{credentials.where}: more than {_DEEPEST} service accounts impersonate each other"
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
