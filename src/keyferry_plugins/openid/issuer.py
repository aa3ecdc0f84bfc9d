"""The issuer: its discovery document, and requests to its endpoints as the configured client."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.values import Value, field
from keyferry._net.forms import encode_form_text
from keyferry._net.http_errors import split_url
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import ONCE, HttpOptions, Reply, Retry, fetch, is_safe_for_secrets
from keyferry.sdk.messages import shown
from keyferry_plugins.oauth.answers import error_of, is_visible, number_of, refused, text_of, texts_of
from keyferry_plugins.oauth.calls import basic_authorization, post_form
from keyferry_plugins.openid.options import Options

_WELL_KNOWN = "/.well-known/openid-configuration"
_MAX_BYTES = 1 << 20
_BASIC, _BODY = "client_secret_basic", "client_secret_post"
_UNAUTHORIZED = 401
_HINTS = {
    "invalid_client": "compare the client at the issuer with --oidc-client-id and --oidc-client-secret",
    "unauthorized_client": "allow this grant for the client at the issuer, or choose another --grant-type",
    "unsupported_grant_type": "enable this grant at the issuer, or choose another --grant-type",
    "invalid_scope": "check --oidc-extra-scope against the scopes that the client may ask for",
    "invalid_grant": "check the user name and password, or log in again",
    "access_denied": "log in again, and approve",
    "expired_token": "run it again, and enter the code in time",
}


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


def discover(options: Options, deadline: Deadline) -> Issuer:
    """Fetch the discovery document; raise ProvideError if it is invalid or of another issuer."""
    _check_issuer(options.issuer)
    url = options.issuer.removesuffix("/") + _WELL_KNOWN
    document = _get(url, options, deadline).json()
    found = document.get("issuer")
    # Compared exactly: a similar URL is another issuer, whose tokens are not accepted.
    if found != options.issuer:
        raise ProvideError(
            f"{url}: its issuer is {shown(found, 200)!r}, expected exactly {options.issuer!r}",
            "set --oidc-issuer-url to the issuer's own spelling, trailing slash included",
        )
    return Issuer(
        url=options.issuer,
        token_endpoint=_endpoint(document, "token_endpoint", options.issuer, is_required=True),
        keys_url=_endpoint(document, "jwks_uri", options.issuer),
        device_endpoint=_endpoint(document, "device_authorization_endpoint", options.issuer),
        authorization_endpoint=_endpoint(document, "authorization_endpoint", options.issuer),
        algorithms=texts_of(document, "id_token_signing_alg_values_supported"),
        client_auth=texts_of(document, "token_endpoint_auth_methods_supported"),
        pkce=texts_of(document, "code_challenge_methods_supported"),
    )


def _check_issuer(url: str) -> None:
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


def _endpoint(document: dict[str, object], name: str, issuer: str, *, is_required: bool = False) -> str:
    value = document.get(name)
    if not value and not is_required:
        return ""
    if not isinstance(value, str) or not value:
        raise ProvideError(f"the issuer {issuer!r} names no {name} in its discovery document")
    # A remote issuer must not direct requests to this machine, so plain http needs a local issuer.
    is_local = issuer.lower().startswith("http://")
    return check_url(value, f"{name} of the issuer {issuer!r}", is_loopback_fine=is_local)


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
    reply = fetch("GET", url, headers=headers, deadline=deadline, options=_http_options(options))
    if not reply.is_success:
        is_redirect = 300 <= reply.status < 400
        hint = "it redirects, which is not followed: give the final URL" if is_redirect else "check the URL"
        raise refused(reply, f"{reply.url}: answered status {reply.status}, expected 200", hint)
    return reply


def _http_options(options: Options) -> HttpOptions:
    return HttpOptions(ca_data=options.ca_data, is_insecure=options.is_insecure, most_bytes=_MAX_BYTES)


class Tokens(Value):
    """The tokens in a response of the token endpoint."""

    id_token: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_in: float | None = None


class Refusal(Value):
    """An error response: its status, OAuth's error code and description, and the pause it asks for, if any."""

    url: str
    status: int
    code: str = ""
    description: str = ""
    retry_after_seconds: int = 0

    def explain(self, what: str) -> ProvideError:
        """Return an error that states *what* was refused, the reason, and a hint."""
        why = f": {self.code}" if self.code else f" with status {self.status} and gave no reason"
        if self.code and self.description:
            why += f" ({self.description})"
        return ProvideError(
            f"{self.url}: refused {what}{why}",
            _HINTS.get(self.code, ""),
            retry_after_seconds=self.retry_after_seconds,
        )


def scope_of(options: Options, *, is_for_client: bool = False) -> str:
    """Return the scopes to request: the user's, and openid, which is needed for an ID token.

    Many issuers reject openid for client credentials, so it is left out for a client that needs an access
    token.
    """
    with_openid = not is_for_client or not options.use_access_token or options.is_compat
    return " ".join(dict.fromkeys([*options.scopes, *(["openid"] if with_openid else [])]))


def ask_tokens(
    issuer: Issuer, options: Options, fields: Mapping[str, str], deadline: Deadline, retry: Retry = ONCE
) -> Tokens | Refusal:
    """Request tokens as the configured client.

    There is no retry by default: issuers treat a code or refresh token that is sent twice as stolen.
    """
    return read_tokens(
        send(issuer, options, fields, deadline, url=issuer.token_endpoint, retry=retry), options
    )


def send(
    issuer: Issuer,
    options: Options,
    fields: Mapping[str, str],
    deadline: Deadline,
    *,
    url: str,
    retry: Retry = ONCE,
) -> Reply:
    """Send a form, authenticated as the client; try the supported methods until one is accepted."""
    *others, last = _methods(issuer, options, fields.get("grant_type", ""))
    for method in others:
        reply = _post(url, fields, options, deadline, method, retry)
        refusal = read_refusal(reply, options)
        is_unknown = refusal.code == "invalid_client" or (
            not refusal.code and refusal.status == _UNAUTHORIZED
        )
        # Another method helps only if the client itself was rejected, and not its request.
        if reply.is_success or not is_unknown:
            return reply
    return _post(url, fields, options, deadline, last, retry)


def _methods(issuer: Issuer, options: Options, grant: str) -> tuple[str, ...]:
    if not options.client_secret:
        return (_BODY,)
    if options.is_compat:
        return {"client_credentials": (_BASIC,), "": (_BODY,)}.get(grant, (_BASIC, _BODY))
    if not issuer.client_auth:
        return _BASIC, _BODY
    methods = tuple(method for method in (_BASIC, _BODY) if method in issuer.client_auth)
    if not methods:
        raise ProvideError(
            f"the issuer {issuer.url!r} does not accept a client secret, only {', '.join(issuer.client_auth)[:200]}",
            "leave out --oidc-client-secret if the client is public",
        )
    return methods


def _post(  # noqa: PLR0917 - the parts of a request
    url: str, fields: Mapping[str, str], options: Options, deadline: Deadline, method: str, retry: Retry
) -> Reply:
    headers, form = {}, dict(fields)
    if method == _BASIC:
        # OAuth requires form encoding first, so that a colon in the ID is not the separator.
        pair = (encode_form_text(part) for part in (options.client_id, options.client_secret))
        headers["Authorization"] = basic_authorization(*pair)
    else:
        form["client_id"] = options.client_id
        if options.client_secret:
            form["client_secret"] = options.client_secret
    return post_form(
        url,
        form,
        headers={**headers, **options.headers},
        deadline=deadline,
        retry=retry,
        options=_http_options(options),
    )


def read_tokens(reply: Reply, options: Options) -> Tokens | Refusal:
    """Return the tokens in a response of the token endpoint, or the error in it."""
    if not reply.is_success:
        return read_refusal(reply, options)
    document = reply.json()
    for name in ("id_token", "access_token", "refresh_token"):
        text = document.get(name)
        if text is not None and not (isinstance(text, str) and is_visible(text)):
            raise ProvideError(f"{reply.url}: {name} in its response is not a string of visible ASCII")
    return Tokens(
        id_token=text_of(document, "id_token"),
        access_token=text_of(document, "access_token"),
        refresh_token=text_of(document, "refresh_token"),
        expires_in=number_of(document, "expires_in"),
    )


def read_refusal(reply: Reply, options: Options) -> Refusal:
    """Return the error in a response, from OAuth's fields only and without secrets."""
    code, description = error_of(reply)
    return Refusal(
        url=reply.url,
        status=reply.status,
        code=shown(code, 60, options.secrets),
        description=shown(description, 300, options.secrets),
        retry_after_seconds=reply.retry_after_seconds,
    )
