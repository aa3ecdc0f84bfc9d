"""Parse responses of token endpoints: a token and its lifetime, or an error."""

from __future__ import annotations

from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.messages import shown
from keyferry_plugins.google.calls import Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk.http import Reply
    from keyferry_plugins.google.calls import Calls

__all__ = ["access_token", "expiry", "lifetime", "refusal", "told"]

# No token of Google's is valid for longer; a longer lifetime in a response is ignored.
LONGEST_SECONDS = 12 * 3600.0
_MOST_DIGITS = 12
# Access tokens, refresh tokens and client secrets in Google's formats, which the general masking does not
# cover.
_SHAPES = r"\bya29\.[\w.~+/=-]+|\b[14]//[\w.~+/=-]{6,}|\bGOCSPX-[\w-]+|\bAIza[\w-]{10,}"
_MASK = "********"


def told(text: object, known: tuple[str, ...] = (), most: int = 300) -> str:
    """Return the text of a server or program, shortened and without secrets, for a message."""
    from re import sub

    clean = str(text)
    # The caller's own secrets first: a pattern may cover only a part of one.
    for secret in sorted(filter(None, known), key=len, reverse=True):
        clean = clean.replace(secret, _MASK)
    return shown(sub(_SHAPES, _MASK, clean), most, known)


def refusal(reply: Reply, what: str, hint: str, known: tuple[str, ...] = ()) -> ProvideError:
    """Return the error for an error response, with its status and the fields in which Google gives the reason."""
    reason = _reason(reply, known)
    return ProvideError(
        f"{what}: {reply.url} answered status {reply.status}{reason and f' ({reason})'}",
        hint,
        retry_after_seconds=reply.retry_after_seconds,
    )


def _reason(reply: Reply, known: tuple[str, ...]) -> str:
    try:
        document = reply.json()
    except HttpError:
        return ""
    error = document.get("error")
    if isinstance(error, dict):
        parts = [error.get("status"), error.get("message")]
    else:
        parts = [error, document.get("error_subtype"), document.get("error_description")]
    return ": ".join(told(part, known) for part in parts if isinstance(part, str) and part)


def access_token(reply: Reply, calls: Calls, what: str, origin: str) -> Token:
    """Return the token in a successful OAuth response; raise ProvideError, which quotes none of it, if it has none."""
    document = reply.json()
    value = check_token(document.get("access_token"), what, f"{reply.url}: access_token")
    seconds = lifetime(document.get("expires_in"))
    return Token(value, None if seconds is None else calls.now() + seconds, origin)


def check_token(value: object, what: str, where: str) -> str:
    """Return *value* if it is a token that is valid in an HTTP header; raise ProvideError otherwise."""
    if not isinstance(value, str) or not value:
        raise ProvideError(f"{what}: {where} is missing, expected a token")
    if any(not " " < char < "\x7f" for char in value):
        raise ProvideError(f"{what}: {where} has characters that are not valid in an HTTP header")
    return value


def lifetime(value: object) -> float | None:
    """Return the seconds of ``expires_in``, a number or digits; None if it is implausible or not positive."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return None
    return float(min(value, LONGEST_SECONDS))


def expiry(value: object) -> float | None:
    """Return an RFC 3339 time in Unix seconds, or None if it is invalid."""
    from keyferry.api.meta import parse_time
    from keyferry.errors import TimeError

    try:
        return parse_time(value) / 1e9 if isinstance(value, str) else None
    except TimeError:
        return None
