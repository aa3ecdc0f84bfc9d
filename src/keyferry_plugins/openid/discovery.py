"""The issuer's discovery document: endpoints, algorithms, and client authentication methods."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry._net.http_errors import split_url
from keyferry.sdk import ProvideError
from keyferry.sdk.http import HttpOptions, fetch, is_safe_for_secrets
from keyferry.sdk.messages import shown
from keyferry_plugins.openid.fields import texts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Reply
    from keyferry_plugins.openid.options import Options

__all__ = ["Issuer", "check_url", "discover", "http_options", "read_keys"]

_WELL_KNOWN = "/.well-known/openid-configuration"
_MOST_BYTES = 1 << 20


class Issuer(Value):
    """The content of an issuer's discovery document; values that it lacks are empty."""

    url: str
    token_endpoint: str
    keys_url: str = ""
    device_endpoint: str = ""
    authorization_endpoint: str = ""
    algorithms: tuple[str, ...] = ()
    client_auth: tuple[str, ...] = ()
    pkce: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether the issuer uses plain http, which is allowed only on this machine."""
        return not self.url.lower().startswith("https://")


def http_options(options: Options) -> HttpOptions:
    """Return the HTTP options for the issuer, from the user's flags."""
    return HttpOptions(ca_data=options.ca_data, is_insecure=options.is_insecure, most_bytes=_MOST_BYTES)


def discover(options: Options, deadline: Deadline) -> Issuer:
    """Fetch the discovery document; raise ProvideError if it is invalid or of another issuer."""
    check_issuer(options.issuer)
    url = options.issuer.removesuffix("/") + _WELL_KNOWN
    reply = _get(url, options, deadline)
    document = reply.json()
    found = document.get("issuer")
    # Compared exactly: a similar URL is another issuer, whose tokens are not accepted.
    if found != options.issuer:
        raise ProvideError(
            f"{url}: its issuer is {shown(found, 200)!r}, expected exactly {options.issuer!r}",
            "set --oidc-issuer-url to the issuer's own spelling, trailing slash included",
        )
    return Issuer(
        options.issuer,
        _endpoint(document, "token_endpoint", options.issuer, is_required=True),
        _endpoint(document, "jwks_uri", options.issuer),
        _endpoint(document, "device_authorization_endpoint", options.issuer),
        _endpoint(document, "authorization_endpoint", options.issuer),
        texts_of(document, "id_token_signing_alg_values_supported"),
        texts_of(document, "token_endpoint_auth_methods_supported"),
        texts_of(document, "code_challenge_methods_supported"),
    )


def check_issuer(url: str) -> None:
    """Raise ProvideError if an issuer's URL is not safe for a secret, or not a valid issuer."""
    try:
        origin = split_url(url)
    except ProvideError as error:
        raise ProvideError(f"--oidc-issuer-url: {error.message}") from None
    if origin.user_info or "?" in url or "#" in url:
        raise ProvideError("--oidc-issuer-url has user info, a query or a fragment, which no issuer has")
    check_url(url, "--oidc-issuer-url")


def check_url(url: str, what: str, *, is_loopback_fine: bool = True) -> str:
    """Return *url* if it is https, or http to loopback; raise ProvideError otherwise."""
    origin = split_url(url)
    if origin.scheme == "https" or (is_loopback_fine and is_safe_for_secrets(url)):
        return url
    raise ProvideError(f"{what} is {shown(str(origin), 200)!r}, expected an https URL")


def read_keys(issuer: Issuer, options: Options, deadline: Deadline) -> list[dict[str, object]]:
    """Return the issuer's public keys."""
    if not issuer.keys_url:
        raise ProvideError(f"the issuer {issuer.url!r} names no jwks_uri, so its tokens cannot be verified")
    found = _get(issuer.keys_url, options, deadline).json().get("keys")
    if not isinstance(found, list):
        raise ProvideError(f"{issuer.keys_url}: there is no list of keys in its response")
    return [key for key in found if isinstance(key, dict)]


def _get(url: str, options: Options, deadline: Deadline) -> Reply:
    headers = {"Accept": "application/json", **options.headers}
    reply = fetch("GET", url, headers=headers, deadline=deadline, options=http_options(options))
    if not reply.is_success:
        is_redirect = 300 <= reply.status < 400
        hint = "it redirects, which is not followed: give the final URL" if is_redirect else "check the URL"
        raise ProvideError(f"{reply.url}: answered status {reply.status}, expected 200", hint)
    return reply


def _endpoint(document: dict[str, object], name: str, issuer: str, *, is_required: bool = False) -> str:
    value = document.get(name)
    if not value and not is_required:
        return ""
    if not isinstance(value, str) or not value:
        raise ProvideError(f"the issuer {issuer!r} names no {name} in its discovery document")
    # A remote issuer must not direct requests to this machine, so plain http needs a local issuer.
    is_local = issuer.lower().startswith("http://")
    return check_url(value, f"{name} of the issuer {issuer!r}", is_loopback_fine=is_local)
