"""Azure's registries: which one an image is pulled from, and its exchange of an Entra token for a docker password."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time

from keyferry._core.values import Value, field
from keyferry._net.challenge import ChallengeError, read_challenges
from keyferry._net.forms import encode_form
from keyferry._net.http_errors import split_url
from keyferry.sdk import Deadline, HttpError, ProvideError
from keyferry.sdk.http import Reply, Retry, fetch
from keyferry.sdk.messages import shown
from keyferry_plugins.oauth.answers import is_number, is_visible, refused, text_of
from keyferry_plugins.signing.jose import read_claims

HOUR_SECONDS = 3600.0
_USER_AGENT = "kubernetes-credentialprovider-acr"
_MARGIN_SECONDS = 300.0
_ZONES = ("azurecr.io", "azurecr.cn", "azurecr.de", "azurecr.us")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def parse_mirrors(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the targets by source of ``source:target,source:target``, and the malformed entries."""
    mirrors: dict[str, str] = {}
    refused = []
    for entry in filter(None, text.replace(" ", "").split(",")):
        source, mark, target = entry.partition(":")
        if not mark or ":" in target or not source or not target:
            refused.append(entry)
        else:
            mirrors[source] = target
    return mirrors, tuple(refused)


def apply_mirror(mirrors: Mapping[str, str], image: str, *, is_compat: bool = False) -> tuple[str, str]:
    """Return the image after mirroring, and the mirror's source, which is empty if none applies.

    The longest source that equals the image, or is followed by a slash in it, applies. With *is_compat* a source
    is any prefix of the image, and the first one applies: upstream tries them in random order.
    """
    if is_compat:
        fitting = [source for source in mirrors if image.startswith(source)][:1]
    else:
        fitting = [source for source in mirrors if f"{image}/".startswith(f"{source.rstrip('/')}/")]
    if not fitting:
        return image, ""
    source = max(fitting, key=len)
    return mirrors[source] + image[len(source) :], source


def find_login_server(image: str, suffix: str) -> str:
    """Return the image's registry with its port, if any, or an empty string if it is not a registry of Azure.

    The whole text before the first slash must match: one label and one of the four zones, or any labels and
    the cloud's own *suffix*.
    """
    registry = image.partition("/")[0]
    host, mark, port = registry.partition(":")
    if mark and not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= 65535):
        return ""
    labels = host.split(".")
    if not all(map(_is_label, labels)):
        return ""
    zone = ".".join(labels[1:]).lower()
    if zone in _ZONES and _LETTERS.issuperset(labels[0]):
        return registry
    own = suffix.strip(".").lower()
    return registry if own and host.lower().endswith(f".{own}") else ""


def _is_label(label: str) -> bool:
    return (
        0 < len(label) <= 63
        and _LETTERS.issuperset(label.replace("-", ""))
        and label[0] != "-"
        and label[-1] != "-"
    )


def find_login_server_compat(image: str, suffix: str) -> str:
    """Return the image's registry as upstream finds it: *suffix* may occur anywhere in the image.

    Upstream also accepts ``evil.example/x.azurecr.io``, and so sends its token to a host outside Azure.
    """
    registry = image.partition("/")[0]
    name, _, zone = registry.partition(".")
    if zone in _ZONES and name and _LETTERS.issuperset(name):
        return registry
    at = image.find(suffix) if suffix else -1
    found = image[: at + len(suffix)] if at >= 0 else ""
    return found if found == find_login_server(found, suffix) else ""


class Exchange(Value):
    """The registry and the identity of an exchange; *grantee* is the identity's name in hints, *tenant* its tenant."""

    login_server: str
    suffix: str
    access_token: str = field(repr=False)
    tenant: str
    grantee: str
    is_compat: bool = False


def exchange_token(exchange: Exchange, deadline: Deadline, retry: Retry) -> str:
    """Return the registry's refresh token for an Entra token, which is sent only to the registry itself."""
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
        headers={"User-Agent": _USER_AGENT, "Content-Type": "application/x-www-form-urlencoded"},
        body=encode_form(fields),
        retry=retry,
    )
    if reply.status != 200:
        raise _refused(reply, exchange)
    token = text_of(reply.json(), "refresh_token")
    if not token or not is_visible(token):
        raise HttpError(reply.url, "answered status 200 without a usable 'refresh_token'")
    return token


def cache_seconds(refresh_token: str) -> float:
    """Return how long the token may be cached: one hour, or its lifetime less a margin if that is shorter."""
    try:
        expires_at = read_claims(refresh_token).get("exp")
    except ProvideError:
        return HOUR_SECONDS
    if not is_number(expires_at):
        return HOUR_SECONDS
    return float(int(max(0.0, min(HOUR_SECONDS, expires_at - time() - _MARGIN_SECONDS))))


def _challenge(exchange: Exchange, deadline: Deadline, retry: Retry) -> tuple[str, str]:
    """Return the origin of the registry's token endpoint, and the registry's service name there."""
    url = f"https://{exchange.login_server}/v2/"
    reply = fetch("GET", url, deadline=deadline, headers={"User-Agent": _USER_AGENT}, retry=retry)
    if reply.status != 401:
        raise refused(
            reply,
            f"{reply.url}: answered status {reply.status}, expected 401 with a challenge",
            "check that it is an Azure registry, and that its firewall allows this machine",
        )
    try:
        found = read_bearer(reply.values("www-authenticate"), is_compat=exchange.is_compat)
        return _check_realm(found["realm"], exchange), found["service"]
    except ChallengeError as error:
        problem = str(error)
    raise ProvideError(f"{reply.url}: its response cannot be used: {problem}")


def read_bearer(headers: Sequence[str], *, is_compat: bool = False) -> dict[str, str]:
    """Return the parameters of the only Bearer challenge in WWW-Authenticate headers, by lower-case name.

    Raise ChallengeError if there is not exactly one, it has no realm or service, a name occurs twice in it, as neither
    value can be trusted, or a quote is not closed. With *is_compat* there must be one header, as upstream expects.
    """
    if is_compat and len(headers) != 1:
        raise ChallengeError(f"it has {len(headers)} WWW-Authenticate headers, expected one")
    # A fault in a challenge of another scheme is not an error.
    ours = [header.strip() for header in headers if header.strip().partition(" ")[0].lower() == "bearer"]
    found = [next(read_challenges(header, is_strict=True))[1] for header in ours]
    if len(found) != 1:
        raise ChallengeError(f"it has {len(found) or 'no'} Bearer challenges, expected one")
    for name in ("realm", "service"):
        if not found[0].get(name):
            raise ChallengeError(f"its Bearer challenge has no {name}")
    return found[0]


def _check_realm(realm: str, exchange: Exchange) -> str:
    """Return the realm's origin if it belongs to the registry, so that no response can redirect the token."""
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
    host, server = host.lower().rstrip("."), server.lower()
    if host == server:
        return True
    zone = f".{suffix.strip('.').lower()}"
    both_inside = len(zone) > 1 and host.endswith(zone) and server.endswith(zone)
    return both_inside and host.partition(".")[0] == server.partition(".")[0]


def _refused(reply: Reply, exchange: Exchange) -> ProvideError:
    """Return the error for an error response, with the text of known fields only."""
    try:
        errors = reply.json().get("errors")
    except HttpError:
        errors = None
    first = errors[0] if isinstance(errors, list) and errors else None
    parts = [text_of(first, name) for name in ("code", "message")] if isinstance(first, dict) else []
    said = "".join(f": {shown(part, known=(exchange.access_token,))}" for part in parts if part)
    hint = "the registry may be busy; try again" if reply.status >= 500 else ""
    if reply.status in (401, 403):
        hint = (
            f"grant {exchange.grantee} the role AcrPull on the registry {exchange.login_server}"
            " (Container Registry Repository Reader, if the registry uses ABAC), and check the tenant"
        )
    return refused(reply, f"{reply.url}: refused with status {reply.status}{said}", hint)
