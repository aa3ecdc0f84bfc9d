"""The response: one login for the image's own registry, never the subject token in another form, and its lifetime."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterator, Mapping

from keyferry._net.forms import decode_percent
from keyferry.api.federation.rules import CompleteRule
from keyferry.api.federation.v1alpha1 import CacheLifetime
from keyferry.sdk import AuthConfig, ProvideError, Request, Response
from keyferry_plugins.federation.parameters import expand
from keyferry_plugins.federation.subject import SubjectToken, read_claim_time
from keyferry_plugins.signing.jose import read_claims

_STANDARD = str.maketrans("-_", "+/")
_EXPIRY = "exp"
_NANOSECONDS = 1_000_000_000
_MAX_DIGITS = 15
_LEEWAY_SECONDS = 60.0


def make_response(
    rule: CompleteRule, values: Mapping[str, str], subject: SubjectToken, request: Request, now: float
) -> Response:
    """Return the login; raise ProvideError if a server returned the subject token in it."""
    credentials = rule.recipe.credentials
    username, password = expand(credentials.username, values), expand(credentials.password, values)
    if rule.recipe.calls:
        _refuse_subject(username, password, subject.text)
    if not username or not password:
        raise ProvideError("the login has no user name or no password")
    seconds = kept_seconds(rule.recipe.lifetime, values, password, now)
    login = AuthConfig(username=username, password=password)
    return Response(auth={request.registry: login}, cache_key_type=rule.cache_key_type, cache_seconds=seconds)


def _refuse_subject(username: str, password: str, subject: str) -> None:
    """Raise ProvideError if the login contains the token: the kubelet compares it with the whole password alone."""
    cores, digits = list(_base64_cores(subject.encode())), subject.encode().hex()
    for text in (username, password, decode_percent(username), decode_percent(password)):
        standard = text.translate(_STANDARD)
        if subject in text or digits in text.lower() or any(core in standard for core in cores):
            raise ProvideError(
                "a server returned the subject token itself as a login, which is not passed on",
                "if the registry takes the token itself, use a recipe without calls, and cacheType: Token",
            )


def _base64_cores(data: bytes) -> Iterator[str]:
    """Yield the base64 of *data* inside a longer text: one for each place in a group of three bytes where it may start.

    Characters that also depend on the bytes before or after *data* are left out.
    """
    for before, shared in ((0, 0), (1, 2), (2, 3)):
        text = b2a_base64(bytes(before) + data, newline=False).decode().rstrip("=")
        yield text[shared:] if (before + len(data)) % 3 == 0 else text[shared:-1]


def kept_seconds(lifetime: CacheLifetime, values: Mapping[str, str], password: str, now: float) -> float:
    """Return the seconds for which the kubelet may keep a login: its own lifetime less a margin.

    Raise ProvideError if the password says that it has expired, or is not valid yet.
    """
    expires_in = _remaining(password, now)
    known = (
        expires_in if source == _EXPIRY else _seconds(values.get(source, "")) for source in lifetime.sources
    )
    found = next((each for each in known if each is not None), None)
    life = lifetime.unknown_ns / _NANOSECONDS if found is None else _less_margin(lifetime, found)
    most = lifetime.most_ns / _NANOSECONDS
    if expires_in is not None:
        # Whatever a response says of its lifetime, the token itself is the limit.
        most = min(most, _less_margin(lifetime, expires_in))
    return float(int(max(0.0, min(life, most))))


def _less_margin(lifetime: CacheLifetime, seconds: float) -> float:
    if lifetime.margin.percent is not None:
        return seconds * (100 - lifetime.margin.percent) / 100
    return seconds - lifetime.margin.ns / _NANOSECONDS


def _seconds(text: str) -> float | None:
    """Return a positive number of seconds; None for anything else, as 0 means that nothing is known."""
    whole = text.partition(".")[0]
    if not (whole.isascii() and whole.isdigit() and len(whole) < _MAX_DIGITS):
        return None
    return float(whole) or None


def _remaining(password: str, now: float) -> float | None:
    """Return the seconds until the expiry in a JSON web token; None for any other password."""
    try:
        claims = read_claims(password)
    except ProvideError:
        return None
    expires_at, not_before = read_claim_time(claims, "exp"), read_claim_time(claims, "nbf")
    if not_before is not None and not_before > now + _LEEWAY_SECONDS:
        raise ProvideError("the token of the response is not valid yet", "check this machine's clock")
    if expires_at is None:
        return None
    if expires_at <= now:
        raise ProvideError("the token of the response has expired already", "check this machine's clock")
    return expires_at - now
