"""Access tokens in the responses of Azure's services."""

from __future__ import annotations

from time import time

from keyferry._core.values import Value, field
from keyferry.sdk import HttpError, ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.http import Reply

__all__ = ["Token", "check_https", "read_instant", "read_token", "text_of"]

_DIGITS = frozenset("0123456789")
_LAST_SECOND = 253_402_300_799
_NANOSECONDS = 1_000_000_000
_NOON = 12


class Token(Value):
    """An access token, its expiry in Unix seconds, and the refresh token issued with it, if any."""

    access_token: str = field(repr=False)
    expires_at: float | None = None
    refresh_token: str = field(default="", repr=False)


def read_token(reply: Reply, name: str = "access_token") -> Token:
    """Return the token in a service's response; raise HttpError, which quotes none of it, if there is none."""
    document = reply.json()
    access_token = text_of(document, name)
    if not access_token or any(not " " < char < "\x7f" for char in access_token):
        raise HttpError(reply.url, f"answered status {reply.status} without a usable {name!r}")
    return Token(access_token, _expiry(document), text_of(document, "refresh_token"))


def text_of(document: Mapping[str, object], name: str) -> str:
    """Return a string member, or an empty string if it is missing or of another type."""
    value = document.get(name)
    return value if isinstance(value, str) else ""


def check_https(url: str, what: str) -> str:
    """Return *url* if it is https or a loopback address; raise ProvideError otherwise."""
    from keyferry.sdk.http import is_safe_for_secrets

    if not is_safe_for_secrets(url):
        raise ProvideError(
            f"{what} is not an https:// URL", "a credential is sent there, so https is required"
        )
    return url


def _expiry(document: Mapping[str, object]) -> float | None:
    at = read_instant(document.get("expires_on"))
    if at is not None:
        return at
    seconds = _number(document.get("expires_in"))
    return None if seconds is None else min(time() + seconds, _LAST_SECOND)


def read_instant(value: object) -> float | None:
    """Return a time in Unix seconds, from a number, a number in a string, or a date; None for anything else."""
    number = _number(value)
    if number is not None:
        return number if number <= _LAST_SECOND else None
    if not isinstance(value, str):
        return None
    from keyferry.api.meta import parse_time
    from keyferry.errors import TimeError

    try:
        return parse_time(_american(value) or value) / _NANOSECONDS
    except TimeError:
        return None


def _number(value: object) -> float | None:
    if isinstance(value, str) and 0 < len(value) < 16 and _DIGITS.issuperset(value):  # far beyond any time
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _LAST_SECOND else None


def _american(text: str) -> str:
    """Return a date such as ``1/31/2026 2:05:09 PM +00:00``, which App Service used to send, in RFC 3339."""
    date, *rest = text.split() or [""]
    parts = date.split("/")
    if len(parts) != 3 or not rest:  # month, day, year
        return ""
    hour, _, minutes = rest[0].partition(":")
    if not (hour.isascii() and hour.isdigit() and len(hour) <= 2):  # digits
        return ""
    number = int(hour)
    # The service writes PM after hours of a 24-hour clock.
    if "PM" in rest and number < _NOON:
        number += _NOON
    elif "AM" in rest and number == _NOON:
        number = 0
    month, day, year = parts
    zone = rest[-1] if rest[-1][0] in "+-" else "Z"
    return f"{year}-{month:0>2}-{day:0>2}T{number:02}:{minutes}{zone}"
