"""Verify a token: its issuer, audience, times and signature."""

from __future__ import annotations

from collections.abc import Mapping
from time import time

from keyferry._core.extras import install_hint
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.messages import shown
from keyferry_plugins.oauth.answers import number_of
from keyferry_plugins.openid.issuer import Issuer, read_keys
from keyferry_plugins.openid.options import Options
from keyferry_plugins.signing.jose import missing_package, read_claims, read_header, verify_jwt

_SECONDS = 30.0
_EXPIRY_LEEWAY = 10.0
_START_LEEWAY = 300.0
_GOOGLE = "https://accounts.google.com"


def verify(
    token: str, issuer: Issuer, options: Options, *, nonce: str = "", is_access_token: bool = False
) -> float:
    """Return the expiry of a token in Unix seconds, after all checks; raise ProvideError if one fails."""
    algorithms = issuer.algorithms or ("RS256",)
    claims: Mapping[str, object]
    audience = "" if is_access_token else options.client_id
    if not missing_package():
        required = ("iss", "exp", "aud") if audience else ("iss", "exp")
        claims = verify_jwt(token, read_keys(issuer, options, Deadline(_SECONDS)), algorithms, required)
    else:
        claims = _trust_transport(token, issuer, options, algorithms)
    return check_claims(claims, issuer.url, audience, nonce=nonce, now=time())


def check_claims(
    claims: Mapping[str, object], issuer: str, audience: str, *, nonce: str = "", now: float
) -> float:
    """Check issuer, *audience* unless it is empty, nonce and times of the claims, and return the expiry."""
    found = claims.get("iss")
    if found != issuer and not (issuer == _GOOGLE and found == _GOOGLE.removeprefix("https://")):
        raise ProvideError(f"the token is from the issuer {shown(found, 200)!r}, expected {issuer!r}")
    if audience:
        _check_audience(claims, audience)
    if nonce and claims.get("nonce") != nonce:
        raise ProvideError("the token belongs to another login: its nonce differs", "start again")
    expires_at, starts_at = expiry_of(claims), number_of(claims, "nbf")
    if expires_at is None:
        raise ProvideError("the token has no exp, so its expiry is unknown")
    if expires_at + _EXPIRY_LEEWAY <= now:
        raise ProvideError(
            f"the token expired {int(now - expires_at)} seconds ago, although it was just issued",
            "compare this machine's clock with the issuer's",
        )
    if starts_at is not None and starts_at - _START_LEEWAY > now:
        raise ProvideError(
            f"the token is not valid until {int(starts_at - now)} seconds from now",
            "compare this machine's clock with the issuer's",
        )
    return expires_at


def expiry_of(claims: Mapping[str, object]) -> float | None:
    """Return a token's expiry in Unix seconds, or None if it has none."""
    return number_of(claims, "exp")


def _check_audience(claims: Mapping[str, object], audience: str) -> None:
    found = claims.get("aud")
    audiences = found if isinstance(found, list) else [found]
    if audience not in audiences:
        listed = ", ".join(shown(one, 100) for one in audiences[:5])
        raise ProvideError(
            f"the token is for {listed!r}, expected the client {audience!r}",
            "check --oidc-client-id",
        )
    # With several audiences, azp is the client that the token was issued to.
    party = claims.get("azp")
    if len(audiences) > 1 and party not in (None, audience):
        raise ProvideError(f"the token was issued to {shown(party, 100)!r}, expected {audience!r}")


def _trust_transport(
    token: str, issuer: Issuer, options: Options, algorithms: tuple[str, ...]
) -> Mapping[str, object]:
    """Return the claims of a token received over verified TLS, which OpenID Connect accepts as proof."""
    if not issuer.token_endpoint.lower().startswith("https://") or options.is_insecure:
        raise ProvideError(
            "the token's signature cannot be verified without the packages 'cryptography' and 'PyJWT', and it"
            " was not received over verified TLS",
            install_hint("crypto"),
        )
    algorithm = read_header(token).get("alg")
    if algorithm not in algorithms or str(algorithm)[:2] not in ("RS", "PS", "ES", "Ed"):
        raise ProvideError(
            f"the token is signed by {shown(algorithm, 20)!r}, expected one of {', '.join(algorithms)}"
        )
    return read_claims(token)
