"""What JSON documents of servers, programs and files contain: tokens, texts, numbers, times and OAuth's errors.

A member of another type, or out of range, counts as missing. No function quotes a document in an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import read_object
from keyferry._core.values import Value, field, replace
from keyferry.api.meta import parse_time
from keyferry.errors import ProvideError, TimeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

    from keyferry.sdk.http import Reply


# The last second of the year 9999; no later time can be formatted.
MAX_SECONDS = 253_402_300_799
_MAX_TEXT = 1 << 16
_MAX_DIGITS = 15
_NANOSECONDS = 1_000_000_000


class Token(Value):
    """A token, its expiry in Unix seconds if known, the refresh token issued with it, and where it is from."""

    value: str = field(repr=False)
    expires_at: float | None = None
    refresh_token: str = field(default="", repr=False)
    origin: str = ""

    def with_refresh_token(self, previous: str) -> Token:
        """Return the token with *previous* as its refresh token if none was issued: it remains valid."""
        return self if self.refresh_token else replace(self, refresh_token=previous)


def is_visible(text: str) -> bool:
    """Return whether *text* is of visible ASCII characters alone, as every token is."""
    return text.isascii() and text.isprintable() and " " not in text


def text_of(document: Mapping[str, object], name: str) -> str:
    """Return a string member, or an empty string."""
    value = document.get(name)
    return value if isinstance(value, str) and len(value) <= _MAX_TEXT else ""


def token_of(document: Mapping[str, object], name: str) -> str:
    """Return a string member that is valid in an HTTP header, or an empty string."""
    value = text_of(document, name)
    return value if is_visible(value) else ""


def texts_of(document: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return the strings in a list member."""
    value = document.get(name)
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def object_of(document: Mapping[str, object], name: str) -> dict[str, object]:
    """Return a member that is an object, or an empty one."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a JSON value is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_number(value: object) -> float | None:
    """Return a number from 0 to MAX_SECONDS, or None; some servers send digits in a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
        value = int(value)
    # Written as a range check, so that it also fails for NaN.
    return float(value) if is_number(value) and 0 <= value <= MAX_SECONDS else None


def number_of(document: Mapping[str, object], name: str) -> float | None:
    """Return a member as a number from 0 to MAX_SECONDS, or None."""
    return read_number(document.get(name))


def read_time(value: object) -> float | None:
    """Return an RFC 3339 time in Unix seconds, or None if it is invalid."""
    try:
        return parse_time(value) / _NANOSECONDS if isinstance(value, str) else None
    except TimeError:
        return None


def error_of(reply: Reply) -> tuple[str, str]:
    """Return OAuth's error code and description in an error response, not masked; empty where it has none."""
    document = read_object(reply.body) or {}
    return text_of(document, "error"), text_of(document, "error_description")


def refused(reply: Reply, message: str, hint: str = "") -> ProvideError:
    """Return the error for an error response, with the pause that the server asks for."""
    return ProvideError(message, hint, retry_after_seconds=reply.retry_after_seconds)
