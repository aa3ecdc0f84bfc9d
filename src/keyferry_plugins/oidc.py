"""An exec plugin of kubeconfigs that obtains a token from any OpenID Connect issuer."""

from __future__ import annotations

from keyferry.sdk import Deadline, ExecRequest, ExecResponse, ProvideError, serve_cluster
from keyferry.sdk.flags import Flags, read_flags
from keyferry_plugins.oauth.answers import Token
from keyferry_plugins.oauth.store import use_token_file
from keyferry_plugins.openid.login import obtain_token
from keyferry_plugins.openid.options import FLAGS, cache_path, read_options

ABOUT = """\
Get a token for a cluster from an OpenID Connect issuer: as a client, by a user name and password, or by a code
that the user enters in a browser on any machine. The flags are those of int128/kubelogin."""
WORDS = (), ("get-token",), ("oidc-login", "get-token")
# The time that a user may take to log in; other processes that need the same token wait for that login.
_LOCK_SECONDS = 1800.0
# A token this close to its expiry could expire in transit.
_MARGIN_SECONDS = 10.0


def provide(request: ExecRequest, flags: Flags) -> ExecResponse:
    """Return a token, from the cache if it holds a valid one, or else from the issuer."""
    if flags.words not in WORDS:
        raise ProvideError(f"unknown command {' '.join(flags.words)[:80]!r}", "the only command is get-token")
    options = read_options(flags)

    def obtain(refresh_token: str) -> Token:
        return obtain_token(request, options, refresh_token)

    if options.cache_folder:
        token = use_token_file(
            cache_path(options),
            Deadline(_LOCK_SECONDS),
            obtain,
            margin_seconds=0.0 if options.is_compat else _MARGIN_SECONDS,
            complaint=f"keyferry-oidc: the token cannot be cached in {options.cache_folder!r}",
            is_forced=options.force_refresh,
            member="id_token",
        )
    else:
        token = obtain("")
    return ExecResponse(token=token.value, expires_at=token.expires_at)


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT, words="[get-token]")
    serve_cluster(lambda request: provide(request, flags))
