"""Log in as a person, by device code or password, and cache the tokens if the user wants that."""

from __future__ import annotations

import os

from keyferry._core.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Deadline, ExecRequest
    from keyferry_plugins.azure.entra import Application
    from keyferry_plugins.azure.options import Options
    from keyferry_plugins.azure.tokens import Token

__all__ = ["log_in_as_user"]


def log_in_as_user(
    options: Options,
    application: Application,
    request: ExecRequest,
    deadline: Deadline,
) -> Token:
    """Return a token for a person: from the cache, by refresh, or by a new login."""
    from keyferry_plugins.azure.token_cache import choose_folder, entry_path, use_cache

    def log_in() -> Token:
        from keyferry_plugins.azure.device_code import log_in_by_device_code

        if options.login == "ropc":
            return _by_password(options, application, request, deadline)
        # A user who sees standard error can enter a code; otherwise the program's own deadline applies.
        is_patient = not options.compat and _is_watched(options, request)
        return log_in_by_device_code(options, application, deadline, is_patient=is_patient)

    if options.pop_host:
        return _bound(options, application, request, deadline)
    folder = choose_folder(options.cache_dir, os.environ, compat=options.compat)
    if not folder:
        return log_in()
    parts = (application.authority, application.tenant, application.client_id, options.resource)
    path = entry_path(folder, *parts, options.login, options.username, str(options.is_legacy))
    return use_cache(path, deadline, log_in, lambda kept: _refresh(options, application, kept, deadline))


def _is_watched(options: Options, request: ExecRequest) -> bool:
    """Return whether somebody can read a code; raise ProvideError if nobody can, unless --wait-for-login is set."""
    from keyferry.sdk import ProvideError
    from keyferry.sdk.messages import is_watched

    if is_watched(request) or options.waits_for_login:
        return is_watched(request)
    raise ProvideError(
        "a code must be entered in a browser, but nobody can read it: the client has no terminal",
        "log in from a terminal, with --cache-dir so that others can use the token; or use --login azurecli, spn, msi"
        " or workloadidentity; or add --wait-for-login to wait anyway",
    )


def _bound(options: Options, application: Application, request: ExecRequest, deadline: Deadline) -> Token:
    # Never cached: the key it is bound to exists only in this run.
    from keyferry_plugins.azure.pop import make_proof

    proof = make_proof()
    token = _by_password(options, application, request, deadline, proof.fields)
    return replace(token, access_token=proof.wrap(token.access_token, options.pop_host))


def _by_password(
    options: Options,
    application: Application,
    request: ExecRequest,
    deadline: Deadline,
    proof: Mapping[str, str] | None = None,
) -> Token:
    from keyferry.sdk import ask
    from keyferry_plugins.azure.device_code import USER_SCOPES
    from keyferry_plugins.azure.entra import request_token

    question = f"Password of {options.username}: "
    password = options.password or ask(request, question, is_secret=True)
    fields = {
        "grant_type": "password",
        "username": options.username,
        "password": password,
        "scope": f"{options.scope} {USER_SCOPES}",
        **(proof or {}),
    }
    return request_token(application, fields, deadline=deadline, secrets=(password,))


def _refresh(options: Options, application: Application, kept: str, deadline: Deadline) -> Token:
    from keyferry_plugins.azure.device_code import USER_SCOPES
    from keyferry_plugins.azure.entra import post_form, read_reply
    from keyferry_plugins.azure.service_principal import LEGACY_PATH

    fields = {"grant_type": "refresh_token", "client_id": application.client_id, "refresh_token": kept}
    if options.is_legacy:
        url, fields["resource"] = application.url(LEGACY_PATH), options.resource
    else:
        url, fields["scope"] = application.token_url, f"{options.scope} {USER_SCOPES}"
    return read_reply(post_form(url, fields, application, deadline=deadline), (kept,))
