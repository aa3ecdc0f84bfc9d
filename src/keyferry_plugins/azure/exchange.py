"""The registry's exchange of an Entra token for a refresh token, which serves as a password for docker."""

from __future__ import annotations

from time import time

from keyferry._core.values import Value, field
from keyferry.sdk import HttpError, ProvideError
from keyferry_plugins.azure.login_server import host_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Reply, Retry

__all__ = ["Exchange", "cache_seconds", "exchange_token"]

USER_AGENT = "kubernetes-credentialprovider-acr"
HOUR_SECONDS = 3600.0
_MARGIN_SECONDS = 300.0
_UNAUTHORIZED = 401
_REFUSED = (401, 403)


class Exchange(Value):
    """The registry and the identity of an exchange; *grantee* is the identity's name in hints, *tenant* its tenant."""

    login_server: str
    suffix: str
    access_token: str = field(repr=False)
    tenant: str
    grantee: str
    compat: bool = False


def exchange_token(exchange: Exchange, deadline: Deadline, retry: Retry) -> str:
    """Return the registry's refresh token for an Entra token, which is sent only to the registry itself."""
    from keyferry._net.forms import encode_form
    from keyferry.sdk.http import fetch

    realm, service = _challenge(exchange, deadline, retry)
    fields = {
        "grant_type": "access_token_refresh_token",
        "service": service,
        "access_token": exchange.access_token,
        # The grant needs both fields, and one token serves as both.
        "refresh_token": exchange.access_token,
        "tenant": exchange.tenant,
    }
    reply = fetch(
        "POST",
        f"{realm}/oauth2/exchange",
        deadline=deadline,
        headers={"User-Agent": USER_AGENT, "Content-Type": "application/x-www-form-urlencoded"},
        body=encode_form(fields),
        retry=retry,
    )
    return _read_refresh_token(reply, exchange)


def cache_seconds(refresh_token: str) -> float:
    """Return how long the token may be cached: one hour, or its lifetime less a margin if that is shorter."""
    from keyferry_plugins.signing.jose import read_claims

    try:
        expires_at = read_claims(refresh_token).get("exp")
    except ProvideError:
        return HOUR_SECONDS
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
        return HOUR_SECONDS
    return float(int(max(0.0, min(HOUR_SECONDS, expires_at - time() - _MARGIN_SECONDS))))


def _challenge(exchange: Exchange, deadline: Deadline, retry: Retry) -> tuple[str, str]:
    """Return the origin of the registry's token endpoint, and the registry's service name there."""
    from keyferry.sdk.http import fetch
    from keyferry_plugins.azure.challenge import ChallengeError, read_bearer, read_bearer_compat

    url = f"https://{exchange.login_server}/v2/"
    reply = fetch("GET", url, deadline=deadline, headers={"User-Agent": USER_AGENT}, retry=retry)
    if reply.status != _UNAUTHORIZED:
        raise ProvideError(
            f"{reply.url}: answered status {reply.status}, expected 401 with a challenge",
            "check that it is an Azure registry, and that its firewall allows this machine",
        )
    headers = reply.values("www-authenticate")
    try:
        found = read_bearer_compat(headers) if exchange.compat else read_bearer(headers)
        return _check_realm(found["realm"], exchange), found["service"]
    except ChallengeError as error:
        problem = str(error)
    raise ProvideError(f"{reply.url}: its response cannot be used: {problem}")


def _check_realm(realm: str, exchange: Exchange) -> str:
    """Return the realm's origin if it belongs to the registry, so that no response can redirect the token."""
    from keyferry._net.http_errors import split_url
    from keyferry_plugins.azure.challenge import ChallengeError

    try:
        origin = split_url(realm)
    except HttpError as error:
        raise ChallengeError(f"its realm {error.problem}") from None
    name, _, port = exchange.login_server.partition("/")[0].partition(":")
    if origin.scheme != "https" or origin.user_info:
        raise ChallengeError("its realm is not a plain https:// URL, and the Entra token is not sent there")
    if origin.port not in (443, int(port or 443)) or not _is_same(origin.host, name, exchange.suffix):
        raise ChallengeError(
            f"its realm is at {origin.authority[:120]!r}, which is not {exchange.login_server!r},"
            " and the Entra token is not sent there"
        )
    return f"https://{origin.authority}"


def _is_same(host: str, server: str, suffix: str) -> bool:
    """Return whether two hosts belong to one registry: equal, or a regional name and the registry's own."""
    host, server = host.lower().rstrip("."), host_of(server).lower()
    if host == server:
        return True
    zone = f".{suffix.strip('.').lower()}"
    both_inside = len(zone) > 1 and host.endswith(zone) and server.endswith(zone)
    return both_inside and host.partition(".")[0] == server.partition(".")[0]


def _read_refresh_token(reply: Reply, exchange: Exchange) -> str:
    from keyferry_plugins.azure.tokens import text_of

    if reply.status == 200:
        token = text_of(reply.json(), "refresh_token")
        if token and all(" " < char < "\x7f" for char in token):
            return token
        raise HttpError(reply.url, "answered status 200 without a usable 'refresh_token'")
    said = _said(reply, exchange)
    raise ProvideError(
        f"{reply.url}: refused with status {reply.status}{said}",
        _hint(reply.status, exchange),
        retry_after_seconds=reply.retry_after_seconds,
    )


def _hint(status: int, exchange: Exchange) -> str:
    if status in _REFUSED:
        return (
            f"grant {exchange.grantee} the role AcrPull on the registry {exchange.login_server}"
            " (Container Registry Repository Reader, if the registry uses ABAC), and check the tenant"
        )
    return "" if status < 500 else "the registry may be busy; try again"  # the server's fault


def _said(reply: Reply, exchange: Exchange) -> str:
    """Return the registry's error text from its known fields."""
    from keyferry.sdk.messages import shown

    try:
        errors = reply.json().get("errors")
    except HttpError:
        return ""
    first = errors[0] if isinstance(errors, list) and errors else None
    if not isinstance(first, dict):
        return ""
    parts = [str(first[name]) for name in ("code", "message") if isinstance(first.get(name), str)]
    return "".join(f": {shown(part, known=(exchange.access_token,))}" for part in parts)
