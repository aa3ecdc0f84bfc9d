"""How long the kubelet may keep a login: the login's own lifetime less a margin."""

from keyferry.sdk import ProvideError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.federation import CacheLifetime

__all__ = ["kept_seconds"]

_EXPIRY = "exp"
_NANOSECONDS = 1_000_000_000
_LONGEST_NUMBER = 15
_LEEWAY_SECONDS = 60.0


def kept_seconds(lifetime: "CacheLifetime", values: "Mapping[str, str]", password: str, now: float) -> float:
    """Return the seconds; raise ProvideError if the password says that it has expired, or is not valid yet."""
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


def _less_margin(lifetime: "CacheLifetime", seconds: float) -> float:
    if lifetime.margin_percent is not None:
        return seconds * (100 - lifetime.margin_percent) / 100
    return seconds - lifetime.margin_ns / _NANOSECONDS


def _seconds(text: str) -> float | None:
    """Return a positive number of seconds; None for anything else, as 0 means that nothing is known."""
    whole = text.partition(".")[0]
    if not (whole.isascii() and whole.isdigit() and len(whole) < _LONGEST_NUMBER):
        return None
    return float(whole) or None


def _remaining(password: str, now: float) -> float | None:
    """Return the seconds until the expiry in a JSON web token; None for any other password."""
    from keyferry.sdk.jwt_claims import JwtError, read_claims

    try:
        claims = read_claims(password)
    except JwtError:
        return None
    expires_at, not_before = claims.get("exp"), claims.get("nbf")
    if _is_number(not_before) and not_before > now + _LEEWAY_SECONDS:  # type: ignore[operator] # a number
        raise ProvideError("the token of the response is not valid yet", "check this machine's clock")
    if not _is_number(expires_at):
        return None
    if expires_at <= now:  # type: ignore[operator] # a number
        raise ProvideError("the token of the response has expired already", "check this machine's clock")
    return float(expires_at - now)  # type: ignore[operator] # a number


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e15 < value < 1e15
