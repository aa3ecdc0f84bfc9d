"""Obtain a token from the issuer: by a refresh token, or by one of the grants, which may involve the user."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from time import sleep, time

from keyferry._core.values import Value, field, replace
from keyferry._net.forms import decode_percent
from keyferry.sdk import Deadline, ExecRequest, ProvideError, ask, tell
from keyferry.sdk.http import Reply, Retry
from keyferry.sdk.messages import is_watched
from keyferry_plugins.oauth.answers import Token
from keyferry_plugins.oauth.calls import with_query
from keyferry_plugins.oauth.device import DeviceCode, poll_for_login, read_device_code
from keyferry_plugins.openid.issuer import (
    Issuer,
    Refusal,
    Tokens,
    ask_tokens,
    check_url,
    discover,
    read_refusal,
    read_tokens,
    scope_of,
    send,
)
from keyferry_plugins.openid.options import Options
from keyferry_plugins.openid.verify import expiry_of, verify
from keyferry_plugins.signing.jose import encode_segment, read_claims

_DISCOVERY_SECONDS = 50.0
_GRANT_SECONDS = 50.0
# With a user who waits for the response.
_REQUEST_SECONDS = 30.0
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_OUT_OF_BAND = "urn:ietf:wg:oauth:2.0:oob"
_RANDOM_BYTES = 32


def obtain_token(request: ExecRequest, options: Options, refresh_token: str) -> Token:
    """Return a verified token: for the refresh token if there is one and the issuer accepts it, or by a login."""
    issuer = discover(options, Deadline(_DISCOVERY_SECONDS))
    if refresh_token:
        renewed = _renew(issuer, options, refresh_token)
        if renewed is not None:
            return renewed
    tokens, nonce = _log_in(issuer, options, request)
    return _choose_token(tokens, issuer, options, nonce)


def _renew(issuer: Issuer, options: Options, refresh_token: str) -> Token | None:
    """Return a token for a refresh token, or None if the issuer rejects it and the user must log in again."""
    fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    try:
        outcome = ask_tokens(issuer, options, fields, Deadline(_GRANT_SECONDS))
    except ProvideError:
        if not options.is_compat:
            raise
        return None
    if isinstance(outcome, Refusal):
        # If the issuer is failing, a new login would fail as well.
        if not outcome.code and not options.is_compat:
            raise outcome.explain("the refresh token")
        return None
    if not (outcome.access_token if options.use_access_token else outcome.id_token):
        return None
    # Some issuers do not return a new refresh token each time.
    return _choose_token(outcome, issuer, options, "").with_refresh_token(refresh_token)


def _choose_token(tokens: Tokens, issuer: Issuer, options: Options, nonce: str) -> Token:
    """Verify the tokens and return the one to respond with."""
    if options.use_access_token:
        value, expires_at = tokens.access_token, _check_access_token(tokens, issuer, options)
    elif tokens.id_token:
        value, expires_at = tokens.id_token, verify(tokens.id_token, issuer, options, nonce=nonce)
    else:
        raise ProvideError(
            f"{issuer.token_endpoint}: there is no ID token in its response",
            "most issuers issue none for client credentials: add --oidc-use-access-token if the cluster"
            " accepts access tokens",
        )
    return Token(value=value, expires_at=expires_at, refresh_token=tokens.refresh_token)


def _check_access_token(tokens: Tokens, issuer: Issuer, options: Options) -> float | None:
    """Return an access token's expiry; a token that is not a JSON web token is not checked here."""
    if not tokens.access_token:
        raise ProvideError(f"{issuer.token_endpoint}: there is no access token in its response")
    try:
        claims = read_claims(tokens.access_token)
    except ProvideError:
        if options.is_compat:
            raise
        return None if tokens.expires_in is None else time() + tokens.expires_in
    if _choose_grant(options, issuer) != "client-credentials":
        return verify(tokens.access_token, issuer, options, is_access_token=True)
    expires_at = expiry_of(claims)
    if expires_at is None:
        raise ProvideError("the access token has no exp, so its expiry is unknown")
    return expires_at


def _choose_grant(options: Options, issuer: Issuer) -> str:
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


def _log_in(issuer: Issuer, options: Options, request: ExecRequest) -> tuple[Tokens, str]:
    """Return tokens by the selected grant, and the nonce that the ID token must contain, if any."""
    grant = _choose_grant(options, issuer)
    if grant == "device-code":
        _require_somebody(options, request)
        return log_in_by_device(issuer, options), ""
    if grant == "authcode-keyboard":
        return _log_in_by_keyboard(issuer, options, request)
    if grant == "client-credentials":
        return _log_in_as_client(issuer, options), ""
    if grant == "password":
        return _log_in_by_password(issuer, options, request), ""
    raise ProvideError(
        "the grant authcode needs a browser on this machine, which keyferry-oidc does not start",
        "use --grant-type device-code, which works with a browser anywhere, or authcode-keyboard",
    )


def _expect(outcome: Tokens | Refusal, what: str) -> Tokens:
    if isinstance(outcome, Refusal):
        raise outcome.explain(what)
    return outcome


def _log_in_as_client(issuer: Issuer, options: Options) -> Tokens:
    if not options.client_secret:
        raise ProvideError(
            "the grant client-credentials needs the client's secret", "add --oidc-client-secret-file FILE"
        )
    fields = {"grant_type": "client_credentials", **options.extra}
    if scope := scope_of(options, is_for_client=True):
        fields["scope"] = scope
    # The request consumes nothing, so it may be retried.
    outcome = ask_tokens(issuer, options, fields, Deadline(_GRANT_SECONDS), Retry())
    return _expect(outcome, "the client's credentials")


def _log_in_by_password(issuer: Issuer, options: Options, request: ExecRequest) -> Tokens:
    username = options.username or ask(request, "Username: ")
    # As part of the options the password is one of the secrets that messages mask.
    options = replace(options, password=options.password or ask(request, "Password: ", is_secret=True))
    fields = {
        "grant_type": "password",
        "username": username,
        "password": options.password,
        "scope": scope_of(options),
    }
    outcome = ask_tokens(issuer, options, fields, Deadline(_GRANT_SECONDS), Retry())
    return _expect(outcome, "the user name and password")


def _require_somebody(options: Options, request: ExecRequest) -> None:
    """Raise ProvideError if nobody can see a code, as the client would wait for minutes without a message."""
    if is_watched(request) or options.waits_for_login or options.is_compat:
        return
    raise ProvideError(
        "a code must be entered in a browser, but nobody can read it: the client has no terminal",
        "log in from a terminal, with --token-cache-dir so that others can use the token; or use"
        " --grant-type client-credentials; or add --wait-for-login to wait anyway",
    )


def log_in_by_device(issuer: Issuer, options: Options, pause: Callable[[float], None] = sleep) -> Tokens:
    """Show the user a URL and a code, and wait until the code is entered; raise ProvideError on failure."""
    device = _request_device_code(issuer, options)
    tell(_invite(device))
    seconds = min(device.seconds, options.login_seconds or device.seconds)
    fields = {"grant_type": _DEVICE_GRANT, "device_code": device.code}

    def ask_once(deadline: Deadline) -> Reply:
        return send(issuer, options, fields, deadline, url=issuer.token_endpoint)

    reply = poll_for_login(device, ask_once, Deadline(seconds), pause)
    if reply is None:
        raise ProvideError(
            f"the code was not entered within {int(seconds)} seconds",
            "run it again, and enter the new code in time",
        )
    return _expect(read_tokens(reply, options), "the device code")


def _request_device_code(issuer: Issuer, options: Options) -> DeviceCode:
    url = issuer.device_endpoint
    if not url:
        raise ProvideError(
            f"the issuer {issuer.url!r} offers no device code login",
            "choose another --grant-type: client-credentials, password or authcode-keyboard",
        )
    fields = {"scope": scope_of(options), **options.extra}
    reply = send(issuer, options, fields, Deadline(_REQUEST_SECONDS), url=url, retry=Retry())
    if not reply.is_success:
        raise read_refusal(reply, options).explain("a device code login")
    device = read_device_code(reply.json())
    if device is None:
        raise ProvideError(f"{url}: its response lacks device_code, user_code or verification_uri")
    for page in filter(None, (device.url, device.complete_url)):
        # The user is told to open this URL and log in.
        check_url(page, f"verification_uri of {url}", is_loopback_fine=issuer.is_local)
    return device


def _invite(device: DeviceCode) -> str:
    """Return the text for the user; the issuer's codes are made safe for a terminal."""
    code, url, complete = (
        "".join(char for char in text[:2000] if " " <= char < "\x7f")
        for text in (device.user_code, device.url, device.complete_url)
    )
    direct = f"\n(or directly {complete})" if complete else ""
    return f"To log in, open\n\n    {url}\n\nin any browser and enter the code\n\n    {code}\n{direct}"


class _Visit(Value):
    """One request for a code: the URL for the user, and the values that must come back with the code."""

    url: str
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


def _log_in_by_keyboard(issuer: Issuer, options: Options, request: ExecRequest) -> tuple[Tokens, str]:
    """Return the tokens for a code that the user pastes, and the nonce that the ID token must contain."""
    if not issuer.authorization_endpoint:
        raise ProvideError(f"the issuer {issuer.url!r} names no authorization_endpoint")
    redirect = options.redirect_url or _OUT_OF_BAND
    visit = _plan_visit(issuer, options, redirect)
    tell(f"To log in, open\n\n    {visit.url}\n")
    typed = ask(request, "Enter the code, or the whole URL you were sent to: ", is_secret=True).strip()
    fields = {"grant_type": "authorization_code", "code": _read_code(typed, visit), "redirect_uri": redirect}
    if visit.verifier:
        fields["code_verifier"] = visit.verifier
    outcome = ask_tokens(issuer, options, fields, Deadline(_REQUEST_SECONDS))
    return _expect(outcome, "the authorization code"), visit.nonce


def _plan_visit(issuer: Issuer, options: Options, redirect: str) -> _Visit:
    state, nonce, verifier = (encode_segment(os.urandom(_RANDOM_BYTES)) for _ in range(3))
    query = {
        "response_type": "code",
        "client_id": options.client_id,
        "redirect_uri": redirect,
        "scope": scope_of(options),
        "state": state,
        "nonce": nonce,
        **options.extra,
    }
    if options.pkce == "S256" or (options.pkce == "auto" and "S256" in issuer.pkce):
        challenge = encode_segment(sha256(verifier.encode()).digest())
        query |= {"code_challenge": challenge, "code_challenge_method": "S256"}
    else:
        verifier = ""
    url = with_query(issuer.authorization_endpoint, query)
    return _Visit(url=url, state=state, nonce=nonce, verifier=verifier)


def _read_code(typed: str, visit: _Visit) -> str:
    """Return the code in the user's input: all of it, or a parameter of a URL, whose state must match."""
    if "://" not in typed:
        if not typed:
            raise ProvideError("no code was entered")
        return typed
    pairs = (pair.partition("=") for pair in typed.partition("?")[2].partition("#")[0].split("&"))
    fields = {name: decode_percent(value.replace("+", " ")) for name, _, value in pairs}
    if fields.get("state") != visit.state:
        raise ProvideError("the URL entered belongs to another login: its state differs", "start again")
    if not fields.get("code"):
        raise ProvideError("the URL entered has no code in it", "the issuer's page may show the reason")
    return fields["code"]
