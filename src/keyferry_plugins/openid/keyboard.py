"""Log in with a code that the user pastes, either shown by the issuer or taken from the redirect URL."""

from __future__ import annotations

import os

from keyferry._core.values import Value, field
from keyferry._net.forms import decode_percent, encode_query
from keyferry.sdk import Deadline, ProvideError, ask, tell
from keyferry_plugins.openid.client import Refusal, Tokens, ask_tokens, explain, scope_of
from keyferry_plugins.signing.jose import encode_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk import ExecRequest
    from keyferry_plugins.openid.discovery import Issuer
    from keyferry_plugins.openid.options import Options

__all__ = ["log_in_by_keyboard"]

_OUT_OF_BAND = "urn:ietf:wg:oauth:2.0:oob"
_REQUEST_SECONDS = 30.0
_RANDOM_BYTES = 32


class _Visit(Value):
    """One request for a code: the URL for the user, and the values that must come back with the code."""

    url: str
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


def log_in_by_keyboard(issuer: Issuer, options: Options, request: ExecRequest) -> tuple[Tokens, str]:
    """Return the tokens for a code that the user pastes, and the nonce that the ID token must contain."""
    if not issuer.authorization_endpoint:
        raise ProvideError(f"the issuer {issuer.url!r} names no authorization_endpoint")
    redirect = options.redirect_url or _OUT_OF_BAND
    visit = _plan(issuer, options, redirect)
    tell(f"To log in, open\n\n    {visit.url}\n")
    typed = ask(request, "Enter the code, or the whole URL you were sent to: ", is_secret=True).strip()
    fields = {"grant_type": "authorization_code", "code": _code(typed, visit), "redirect_uri": redirect}
    if visit.verifier:
        fields["code_verifier"] = visit.verifier
    outcome = ask_tokens(issuer, options, fields, Deadline(_REQUEST_SECONDS))
    if isinstance(outcome, Refusal):
        raise explain(outcome, "the authorization code")
    return outcome, visit.nonce


def _plan(issuer: Issuer, options: Options, redirect: str) -> _Visit:
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
        from hashlib import sha256

        challenge = encode_segment(sha256(verifier.encode()).digest())
        query |= {"code_challenge": challenge, "code_challenge_method": "S256"}
    else:
        verifier = ""
    mark = "&" if "?" in issuer.authorization_endpoint else "?"
    return _Visit(issuer.authorization_endpoint + mark + encode_query(query), state, nonce, verifier)


def _code(typed: str, visit: _Visit) -> str:
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
