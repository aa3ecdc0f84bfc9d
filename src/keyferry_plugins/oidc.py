"""An exec plugin of kubeconfigs that obtains a token from any OpenID Connect issuer."""

from __future__ import annotations

from time import time

from keyferry._core.values import Value, field
from keyferry.sdk import Deadline, ExecResponse, ProvideError, serve_cluster, tell
from keyferry.sdk.flags import read_flags
from keyferry_plugins.openid.options import FLAGS, read_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk import ExecRequest
    from keyferry.sdk.flags import Flags
    from keyferry_plugins.openid.cache import KeptTokens
    from keyferry_plugins.openid.client import Tokens
    from keyferry_plugins.openid.discovery import Issuer
    from keyferry_plugins.openid.options import Options

__all__ = ["main", "provide"]

ABOUT = """\
Get a token for a cluster from an OpenID Connect issuer: as a client, by a user name and password, or by a code
that the user enters in a browser on any machine. The flags are those of int128/kubelogin."""
WORDS = (), ("get-token",), ("oidc-login", "get-token")
_DISCOVERY_SECONDS = 50.0
# The time that a user may take to log in; other processes that need the same token wait for that login.
_LOCK_SECONDS = 1800.0
# A token this close to its expiry could expire in transit.
_SPARE_SECONDS = 10.0


class _Fresh(Value):
    """A token, its expiry, and the refresh token issued with it."""

    token: str = field(repr=False)
    expires_at: float | None
    refresh_token: str = field(default="", repr=False)


def provide(request: ExecRequest, flags: Flags) -> ExecResponse:
    """Return a token, from the cache if it holds a valid one, or else from the issuer."""
    if flags.words not in WORDS:
        raise ProvideError(f"unknown command {' '.join(flags.words)[:80]!r}", "the only command is get-token")
    options = read_options(flags)
    if not options.cache_folder:
        fresh = _get(request, options, "")
        return ExecResponse(fresh.token, fresh.expires_at)
    from keyferry.sdk.files import Lock
    from keyferry_plugins.openid.cache import KeptTokens, cache_path, load, save

    path = cache_path(options)
    with Lock(path, Deadline(_LOCK_SECONDS)):
        kept = load(path)
        if _holds(kept, options):
            return ExecResponse(kept.token, kept.expires_at)
        fresh = _get(request, options, kept.refresh_token)
        if not save(path, KeptTokens(fresh.token, fresh.expires_at or 0, fresh.refresh_token)):
            tell(f"keyferry-oidc: the token cannot be cached in {options.cache_folder!r}")
    return ExecResponse(fresh.token, fresh.expires_at)


def _holds(kept: KeptTokens, options: Options) -> bool:
    spare = 0.0 if options.is_compat else _SPARE_SECONDS
    return bool(kept.token) and not options.force_refresh and kept.expires_at > time() + spare


def _get(request: ExecRequest, options: Options, refresh_token: str) -> _Fresh:
    from keyferry_plugins.openid.discovery import discover
    from keyferry_plugins.openid.grants import log_in

    issuer = discover(options, Deadline(_DISCOVERY_SECONDS))
    if refresh_token:
        renewed = _renew(issuer, options, refresh_token)
        if renewed is not None:
            return renewed
    tokens, nonce = log_in(issuer, options, request)
    return _judge(tokens, issuer, options, nonce)


def _renew(issuer: Issuer, options: Options, refresh_token: str) -> _Fresh | None:
    """Return a token for a refresh token, or None if the issuer rejects it and the user must log in again."""
    from keyferry._core.values import replace
    from keyferry_plugins.openid.client import Refusal, explain
    from keyferry_plugins.openid.grants import refresh

    try:
        outcome = refresh(issuer, options, refresh_token)
    except ProvideError:
        if not options.is_compat:
            raise
        return None
    if isinstance(outcome, Refusal):
        # If the issuer is failing, a new login would fail as well.
        if not outcome.code and not options.is_compat:
            raise explain(outcome, "the refresh token")
        return None
    if not (outcome.access_token if options.use_access_token else outcome.id_token):
        return None
    # Some issuers do not return a new refresh token each time.
    kept = outcome if outcome.refresh_token else replace(outcome, refresh_token=refresh_token)
    return _judge(kept, issuer, options, "")


def _judge(tokens: Tokens, issuer: Issuer, options: Options, nonce: str) -> _Fresh:
    """Verify the tokens and return the one to respond with."""
    from keyferry_plugins.openid.grants import choose_grant
    from keyferry_plugins.openid.verify import verify

    if options.use_access_token:
        is_client = choose_grant(options, issuer) == "client-credentials"
        expires_at = _judge_access_token(tokens, issuer, options, is_client=is_client)
        return _Fresh(tokens.access_token, expires_at, tokens.refresh_token)
    if not tokens.id_token:
        raise ProvideError(
            f"{issuer.token_endpoint}: there is no ID token in its response",
            "most issuers issue none for client credentials: add --oidc-use-access-token if the cluster"
            " accepts access tokens",
        )
    expires_at = verify(tokens.id_token, issuer, options, nonce=nonce)
    return _Fresh(tokens.id_token, expires_at, tokens.refresh_token)


def _judge_access_token(tokens: Tokens, issuer: Issuer, options: Options, *, is_client: bool) -> float | None:
    """Return an access token's expiry; a token that is not a JSON web token is not checked here."""
    from keyferry_plugins.openid.verify import expiry_of, verify
    from keyferry_plugins.signing.jose import read_claims

    if not tokens.access_token:
        raise ProvideError(f"{issuer.token_endpoint}: there is no access token in its response")
    try:
        claims = read_claims(tokens.access_token)
    except ProvideError:
        if options.is_compat:
            raise
        return None if tokens.expires_in is None else time() + tokens.expires_in
    if not is_client:
        return verify(tokens.access_token, issuer, options, is_access_token=True)
    expires_at = expiry_of(claims)
    if expires_at is None:
        raise ProvideError("the access token has no exp, so its expiry is unknown")
    return expires_at


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT, words="[get-token]")
    serve_cluster(lambda request: provide(request, flags))
