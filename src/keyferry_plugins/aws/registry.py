"""The login of ECR, decoded from the token that its API returns."""

from __future__ import annotations

from keyferry._core.values import Value, field
from keyferry.sdk import ProvideError
from keyferry_plugins.aws.calls import json_call, send
from keyferry_plugins.aws.endpoints import ECR_PUBLIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.aws.credentials import Credentials
    from keyferry_plugins.aws.endpoints import Endpoint
    from keyferry_plugins.aws.environment import Environment

__all__ = ["RegistryLogin", "get_login"]

_TARGET = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
_PUBLIC_TARGET = "SpencerFrontendService.GetAuthorizationToken"
_LAST_SECOND = 253_402_300_799


class RegistryLogin(Value):
    """User name and password for a registry; *expires_at* is in Unix seconds, or None if AWS gives no expiry."""

    username: str
    password: str = field(repr=False)
    expires_at: float | None = None


def get_login(environment: Environment, endpoint: Endpoint, credentials: Credentials) -> RegistryLogin:
    """Request an authorization token; raise ProvideError, which quotes none of the token, on failure."""
    is_public = endpoint.service == ECR_PUBLIC
    rights = "ecr-public:GetAuthorizationToken and sts:GetServiceBearerToken"
    call = json_call(
        endpoint,
        _PUBLIC_TARGET if is_public else _TARGET,
        rights if is_public else "ecr:GetAuthorizationToken",
    )
    found = send(environment, call, credentials).json().get("authorizationData")
    if isinstance(found, list):
        found = found[0] if found else None
    if not isinstance(found, dict):
        raise ProvideError(f"{call.name}: the response has no authorizationData")
    username, password = _split(found.get("authorizationToken"), call.name)
    return RegistryLogin(username, password, _expiry(found.get("expiresAt"), call.name))


def _split(token: object, where: str) -> tuple[str, str]:
    from binascii import Error, a2b_base64

    if not isinstance(token, str) or not token:
        raise ProvideError(f"{where}: the response has no authorizationToken")
    decoded = b""
    try:
        decoded = a2b_base64(token.encode("ascii", "replace"), strict_mode=True)
    except Error:
        pass
    # Raised outside the handler: the caught exception may contain the token.
    if not decoded:
        raise ProvideError(f"{where}: authorizationToken is not base64")
    username, colon, password = decoded.decode("utf-8", "replace").partition(":")
    if not colon:
        raise ProvideError(f"{where}: authorizationToken is not 'user:password'")
    return username, password


def _expiry(value: object, where: str) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LAST_SECOND:  # type: ignore[operator] # a number, by the line before
        raise ProvideError(f"{where}: expiresAt is not a time in seconds")
    return float(value)  # type: ignore[arg-type] # as above
