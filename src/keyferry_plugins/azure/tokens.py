"""Access tokens as Azure's services answer them."""

from time import time

from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.values import Value, field

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.http import Reply

__all__ = ["Token", "check_https", "read_instant", "read_token", "text_of"]

_DIGITS = frozenset("0123456789")
_LAST_SECOND = 253_402_300_799
_NANOSECONDS = 1_000_000_000
_NOON = 12


class Token(Value):
    """An access token, when it expires in Unix seconds, and the refresh token that came with it, if one did."""

    access_token: str = field(repr=False)
    expires_at: float | None = None
    refresh_token: str = field(default="", repr=False)


def read_token(reply: "Reply", name: str = "access_token") -> Token:
    """The token in a service's answer; raises HttpError, which quotes none of it."""
    document = reply.json()
    access_token = text_of(document, name)
    if not access_token or any(not " " < char < "\x7f" for char in access_token):
        raise HttpError(reply.url, f"answered status {reply.status} without a usable {name!r}")
    return Token(access_token, _expiry(document), text_of(document, "refresh_token"))


def text_of(document: "Mapping[str, object]", name: str) -> str:
    """A text in an answer, or nothing if it is missing or is something else."""
    value = document.get(name)
    return value if isinstance(value, str) else ""


def check_https(url: str, what: str) -> str:
    """The URL as it is, if what is sent there can be read there alone: by TLS, or not leaving this machine."""
    from keyferry.sdk.proxy import split_url

    try:
        origin = split_url(url)
        is_safe = origin.scheme == "https" or origin.host in ("localhost", "127.0.0.1", "::1")
    except HttpError:
        is_safe = False
    if not is_safe:
        raise ProvideError(f"{what} is not an https:// URL", "a credential is sent there, so it must be one")
    return url


def _expiry(document: "Mapping[str, object]") -> float | None:
    at = read_instant(document.get("expires_on"))
    if at is not None:
        return at
    seconds = _number(document.get("expires_in"))
    return None if seconds is None else min(time() + seconds, _LAST_SECOND)


def read_instant(value: object) -> float | None:
    """A time in Unix seconds: from a number, as number or text, or from a date; None for anything else."""
    number = _number(value)
    if number is not None:
        return number if number <= _LAST_SECOND else None
    if not isinstance(value, str):
        return None
    from keyferry.sdk.times import TimeError, parse_time

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
    """A date such as ``1/31/2026 2:05:09 PM +00:00``, which App Service used to write, as RFC 3339."""
    date, *rest = text.split() or [""]
    parts = date.split("/")
    if len(parts) != 3 or not rest:  # month, day, year
        return ""
    hour, _, minutes = rest[0].partition(":")
    if not (hour.isascii() and hour.isdigit()):
        return ""
    number = int(hour)
    # The service writes PM behind hours that already count to 24.
    if "PM" in rest and number < _NOON:
        number += _NOON
    elif "AM" in rest and number == _NOON:
        number = 0
    month, day, year = parts
    zone = rest[-1] if rest[-1][0] in "+-" else "Z"
    return f"{year}-{month:0>2}-{day:0>2}T{number:02}:{minutes}{zone}"
