"""The ways to a token: which one to take, and each of them."""

from keyferry.sdk import Deadline, ProvideError, ask
from keyferry.sdk.http import Retry
from keyferry.sdk.prompt import is_watched
from keyferry.sdk.values import replace
from keyferry_plugins.openid.client import Refusal, Tokens, ask_tokens, explain, scope_of

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from keyferry.sdk import ExecRequest
    from keyferry_plugins.openid.discovery import Issuer
    from keyferry_plugins.openid.options import Options

__all__ = ["choose_grant", "log_in", "refresh"]

_SECONDS = 50.0


def choose_grant(options: "Options", issuer: "Issuer") -> str:
    """The grant to use; ``auto`` is password for a user name, and otherwise what needs no browser here.

    That is a device code wherever the issuer offers one: a client's secret alone does not mean that nobody logs in.
    """
    if options.grant != "auto":
        return options.grant
    if options.username:
        return "password"
    if options.is_compat:
        return "authcode"
    return "device-code" if issuer.device_endpoint or not options.client_secret else "client-credentials"


def log_in(issuer: "Issuer", options: "Options", request: "ExecRequest") -> tuple[Tokens, str]:
    """Get tokens by the grant that the options mean, and the nonce that must be in the ID token, if any."""
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


def _require_somebody(options: "Options", request: "ExecRequest") -> None:
    """Raise ProvideError where a code would be shown to nobody: the client would wait for minutes, without a word."""
    if is_watched(request) or options.waits_for_login or options.is_compat:
        return
    raise ProvideError(
        "a code has to be entered in a browser, and nobody is there to read it: the client has no terminal",
        "log in from a terminal, with --token-cache-dir so that others can use the token; or let the client act for"
        " itself, with --grant-type client-credentials; or add --wait-for-login to wait all the same",
    )


def refresh(issuer: "Issuer", options: "Options", refresh_token: str) -> Tokens | Refusal:
    """Trade a refresh token for new tokens; the old one may be spent by it."""
    fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return ask_tokens(issuer, options, fields, Deadline(_SECONDS))


def _as_client(issuer: "Issuer", options: "Options") -> Tokens:
    if not options.client_secret:
        raise ProvideError(
            "the grant client-credentials needs the client's secret", "add --oidc-client-secret-file FILE"
        )
    fields = {"grant_type": "client_credentials", **options.extra}
    if scope := scope_of(options, is_for_client=True):
        fields["scope"] = scope
    # It spends nothing, so it may be tried again.
    return _expect(
        ask_tokens(issuer, options, fields, Deadline(_SECONDS), Retry()), "the client's credentials"
    )


def _by_password(issuer: "Issuer", options: "Options", request: "ExecRequest") -> Tokens:
    username = options.username or ask(request, "Username: ")
    # Among the options it is one of those secrets that no message shows.
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
