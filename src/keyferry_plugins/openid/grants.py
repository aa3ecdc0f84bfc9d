"""The grants that obtain a token, and the choice among them."""

from __future__ import annotations

from keyferry._core.values import replace
from keyferry.sdk import Deadline, ProvideError, ask
from keyferry.sdk.http import Retry
from keyferry.sdk.messages import is_watched
from keyferry_plugins.openid.client import Refusal, Tokens, ask_tokens, explain, scope_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk import ExecRequest
    from keyferry_plugins.openid.discovery import Issuer
    from keyferry_plugins.openid.options import Options

__all__ = ["choose_grant", "log_in", "refresh"]

_SECONDS = 50.0


def choose_grant(options: Options, issuer: Issuer) -> str:
    """Return the grant to use; ``auto`` means password if a user name is given, else a grant without a local browser.

    That is a device code if the issuer supports it, because a client with a secret may still serve users.
    """
    if options.grant != "auto":
        return options.grant
    if options.username:
        return "password"
    if options.is_compat:
        return "authcode"
    return "device-code" if issuer.device_endpoint or not options.client_secret else "client-credentials"


def log_in(issuer: Issuer, options: Options, request: ExecRequest) -> tuple[Tokens, str]:
    """Return tokens by the selected grant, and the nonce that the ID token must contain, if any."""
    grant = choose_grant(options, issuer)
    if grant == "device-code":
        from keyferry_plugins.openid.device import log_in_by_device

        _require_somebody(options, request)
        return log_in_by_device(issuer, options), ""
    if grant == "authcode-keyboard":
        from keyferry_plugins.openid.keyboard import log_in_by_keyboard

        return log_in_by_keyboard(issuer, options, request)
    if grant == "client-credentials":
        return _as_client(issuer, options), ""
    if grant == "password":
        return _by_password(issuer, options, request), ""
    raise ProvideError(
        "the grant authcode needs a browser on this machine, which keyferry-oidc does not start",
        "use --grant-type device-code, which works with a browser anywhere, or authcode-keyboard",
    )


def _require_somebody(options: Options, request: ExecRequest) -> None:
    """Raise ProvideError if nobody can see a code, as the client would wait for minutes without a message."""
    if is_watched(request) or options.waits_for_login or options.is_compat:
        return
    raise ProvideError(
        "a code must be entered in a browser, but nobody can read it: the client has no terminal",
        "log in from a terminal, with --token-cache-dir so that others can use the token; or use"
        " --grant-type client-credentials; or add --wait-for-login to wait anyway",
    )


def refresh(issuer: Issuer, options: Options, refresh_token: str) -> Tokens | Refusal:
    """Exchange a refresh token for new tokens; this may invalidate the old one."""
    fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return ask_tokens(issuer, options, fields, Deadline(_SECONDS))


def _as_client(issuer: Issuer, options: Options) -> Tokens:
    if not options.client_secret:
        raise ProvideError(
            "the grant client-credentials needs the client's secret", "add --oidc-client-secret-file FILE"
        )
    fields = {"grant_type": "client_credentials", **options.extra}
    if scope := scope_of(options, is_for_client=True):
        fields["scope"] = scope
    # The request consumes nothing, so it may be retried.
    return _expect(
        ask_tokens(issuer, options, fields, Deadline(_SECONDS), Retry()), "the client's credentials"
    )


def _by_password(issuer: Issuer, options: Options, request: ExecRequest) -> Tokens:
    username = options.username or ask(request, "Username: ")
    # As part of the options the password is one of the secrets that messages mask.
    options = replace(options, password=options.password or ask(request, "Password: ", is_secret=True))
    fields = {
        "grant_type": "password",
        "username": username,
        "password": options.password,
        "scope": scope_of(options),
    }
    outcome = ask_tokens(issuer, options, fields, Deadline(_SECONDS), Retry())
    return _expect(outcome, "the user name and password")


def _expect(outcome: Tokens | Refusal, what: str) -> Tokens:
    if isinstance(outcome, Refusal):
        raise explain(outcome, what)
    return outcome
