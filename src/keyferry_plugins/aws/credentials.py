"""AWS credentials, and how they are read from the responses of their sources."""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.signing.sigv4 import Credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Credentials", "read_credentials", "read_time", "text_of"]

NAMES = ("AccessKeyId", "SecretAccessKey", "Token")
_NANOSECONDS = 1_000_000_000


def read_credentials(
    document: Mapping[str, object], source: str, names: tuple[str, str, str] = NAMES
) -> Credentials:
    """Return the credentials in a JSON object; *names* are the members for key, secret and session token.

    Raise ProvideError, which quotes no value, if a member is missing.
    """
    key, secret, token = (text_of(document, name) for name in names)
    for name, value in zip(names, (key, secret), strict=False):
        if not value:
            raise ProvideError(f"the response of {source} has no {name}")
    return Credentials(key, secret, token, read_time(document.get("Expiration"), source), source)


def text_of(document: Mapping[str, object], name: str) -> str:
    """Return a string member that is valid in a header, or an empty string."""
    value = document.get(name)
    if not isinstance(value, str) or any(not "!" <= char <= "~" for char in value):
        return ""
    return value


def read_time(value: object, source: str) -> float | None:
    """Return an RFC 3339 time in Unix seconds, or None if there is none; raise ProvideError if it is invalid."""
    if value is None or value == "":
        return None
    from keyferry.api.meta import parse_time

    try:
        return parse_time(value if isinstance(value, str) else "") / _NANOSECONDS
    except Exception:  # noqa: BLE001 - the exception would quote the value
        problem = f"the response of {source} has an Expiration that is not an RFC 3339 time"
    raise ProvideError(problem)
