"""Log in as a person, by device code or password, and cache the tokens if the user wants that."""

from __future__ import annotations

import os
from collections.abc import Mapping

from keyferry.sdk import Deadline, ExecRequest, HttpError, ProvideError, ask, tell
from keyferry.sdk.http import ONCE, Reply
from keyferry.sdk.messages import is_watched, shown
from keyferry_plugins.azure.entra import Application, EntraError, read_token, refusal, request_token
from keyferry_plugins.azure.options import Options
from keyferry_plugins.azure.signatures import make_proof
from keyferry_plugins.oauth.answers import Token
from keyferry_plugins.oauth.device import DeviceCode, poll_for_login, read_device_code
from keyferry_plugins.oauth.store import digest_of, use_token_file

_SCOPES = "openid offline_access profile"
_CACHE_PREFIX = "keyferry-aks-"
# Enough for the request that the token is for.
_MARGIN_SECONDS = 60.0
_DECLINED = "the login was declined; run it again"
_EXPIRED = "the code has expired; run it again"
_DEVICE_HINTS = {
    "authorization_declined": _DECLINED,
    "access_denied": _DECLINED,
    "expired_token": _EXPIRED,
    "code_expired": _EXPIRED,
}


def log_in_as_user(
    options: Options, application: Application, request: ExecRequest, deadline: Deadline
) -> Token:
    """Return a token for a person: from the cache, by refresh, or by a new login."""
    if options.pop_host:
        # Never cached: the key it is bound to exists only in this run.
        proof = make_proof()
        token = _log_in_by_password(options, application, request, deadline, proof.fields)
        return proof.bind(token, options.pop_host)

    def obtain(refresh_token: str) -> Token:
        renewed = _refresh(options, application, refresh_token, deadline) if refresh_token else None
        return renewed or _log_in(options, application, request, deadline)

    folder = choose_folder(options.cache_dir, os.environ, is_compat=options.is_compat)
    if not folder:
        return obtain("")
    parts = [
        application.authority,
        application.tenant,
        application.client_id,
        options.resource,
        options.login,
        options.username,
        str(options.is_legacy),
    ]
    path = os.path.join(folder, f"{_CACHE_PREFIX}{digest_of(parts)[:32]}.json")
    return use_token_file(
        path,
        deadline,
        obtain,
        margin_seconds=_MARGIN_SECONDS,
        complaint=f"the token cannot be cached in {os.path.dirname(path)!r}; the next run logs in again",
    )


def choose_folder(given: str, environ: Mapping[str, str], *, is_compat: bool) -> str:
    """Return the folder for tokens: the one given, upstream's own with *is_compat*, or else an empty string."""
    if given:
        return os.path.expanduser(given)
    if not is_compat:
        return ""
    return environ.get("KUBECACHEDIR") or os.path.expanduser("~/.kube/cache/kubelogin")


def remove_entries(folder: str) -> tuple[int, int]:
    """Remove the entries of this plugin and upstream; return how many were removed and how many files remain.

    Other files stay, and so does a folder that contains some, in case the path is mistyped.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise ProvideError(
            f"the cache folder {folder!r} cannot be read: {str(error.strerror).lower()}"
        ) from None
    ours = [name for name in names if name.startswith(_CACHE_PREFIX) or name == "auth.json"]
    for name in ours:
        path = os.path.join(folder, name)
        try:
            os.unlink(path)
        except OSError as error:
            raise ProvideError(f"{path!r} cannot be removed: {str(error.strerror).lower()}") from None
    left = len(names) - len(ours)
    if not left:
        try:
            os.rmdir(folder)
        except OSError:
            pass
    return len(ours), left


def _refresh(options: Options, application: Application, kept: str, deadline: Deadline) -> Token | None:
    """Return a token by a refresh token, or None if Entra rejects that, and the user must log in again."""
    fields = {"grant_type": "refresh_token", "refresh_token": kept, **options.target(_SCOPES)}
    try:
        token = request_token(
            application, fields, deadline=deadline, secrets=(kept,), is_legacy=options.is_legacy
        )
    except EntraError as error:
        # Only a rejection of this refresh token leads to a new login; a server error does not.
        if error.error not in ("invalid_grant", "interaction_required"):
            raise
        return None
    return token.with_refresh_token(kept)


def _log_in(options: Options, application: Application, request: ExecRequest, deadline: Deadline) -> Token:
    if options.login == "ropc":
        return _log_in_by_password(options, application, request, deadline, {})
    if options.is_compat or options.waits_for_login or is_watched(request):
        # A user who sees standard error can enter a code; otherwise the program's own deadline applies.
        is_patient = not options.is_compat and is_watched(request)
        return _log_in_by_device_code(options, application, deadline, is_patient=is_patient)
    raise ProvideError(
        "a code must be entered in a browser, but nobody can read it: the client has no terminal",
        "log in from a terminal, with --cache-dir so that others can use the token; or use --login azurecli, spn, msi"
        " or workloadidentity; or add --wait-for-login to wait anyway",
    )


def _log_in_by_password(
    options: Options,
    application: Application,
    request: ExecRequest,
    deadline: Deadline,
    proof: Mapping[str, str],
) -> Token:
    """Return a token for a user name and password; *proof* holds the fields that bind it to a key."""
    password = options.password or ask(request, f"Password of {options.username}: ", is_secret=True)
    fields = {
        "grant_type": "password",
        "username": options.username,
        "password": password,
        "scope": f"{options.scope} {_SCOPES}",
        **proof,
    }
    return request_token(application, fields, deadline=deadline, secrets=(password,))


def _log_in_by_device_code(
    options: Options, application: Application, deadline: Deadline, *, is_patient: bool
) -> Token:
    """Return a token for the user who enters the code; *is_patient* waits until the code expires."""
    device = _request_device_code(options, application, deadline)
    message = device.message or f"to log in, open {device.url} and enter the code {device.user_code}"
    tell(shown(message, 600, (device.code,)))
    fields = {"grant_type": "device_code"}
    if options.is_legacy:
        fields |= {"code": device.code, "resource": options.resource}
    else:
        fields |= {"device_code": device.code}

    def ask_once(limit: Deadline) -> Reply:
        return application.post(application.token_url(is_legacy=options.is_legacy), fields, limit, ONCE)

    reply = poll_for_login(device, ask_once, Deadline(device.seconds) if is_patient else deadline)
    if reply is None:
        raise ProvideError(
            "nobody logged in before the time limit",
            "run it again, and enter the code before it expires",
        )
    try:
        return read_token(reply, secrets=(device.code,))
    except EntraError as error:
        refused = error
    raise refused.with_hint(_DEVICE_HINTS.get(refused.error, refused.hint))


def _request_device_code(options: Options, application: Application, deadline: Deadline) -> DeviceCode:
    path = "oauth2/devicecode?api-version=1.0" if options.is_legacy else "oauth2/v2.0/devicecode"
    reply = application.post(application.url(path), options.target(_SCOPES), deadline)
    if not reply.is_success:
        raise refusal(reply)
    device = read_device_code(reply.json())
    if device is None:
        raise HttpError(reply.url, "answered without a user code and a verification page")
    return device
