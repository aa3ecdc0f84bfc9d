"""Device codes (RFC 8628): the user enters a code in a browser on any machine while the plugin polls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import sleep

from keyferry._core.values import Value, field
from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import Reply
from keyferry_plugins.oauth.answers import error_of, number_of, text_of

# The limit of a wait in a terminal, whatever the server allows.
MAX_LOGIN_SECONDS = 1800.0
DEFAULT_INTERVAL, MIN_INTERVAL, MAX_INTERVAL = 5.0, 1.0, 60.0
_SLOWER_BY = 5.0
_REQUEST_SECONDS = 30.0
_TOO_MANY, _SERVER_ERRORS = 429, 500


class DeviceCode(Value):
    """A device authorization: the codes, the pages for the user, and expiry and polling interval in seconds."""

    code: str = field(repr=False)
    user_code: str
    url: str
    seconds: float
    interval: float
    complete_url: str = ""
    message: str = ""


def read_device_code(document: Mapping[str, object]) -> DeviceCode | None:
    """Return the authorization in a response, with its times within limits; None if a code or the page is missing."""
    code, user_code = text_of(document, "device_code"), text_of(document, "user_code")
    # Some servers still use the name in an early draft.
    url = text_of(document, "verification_uri") or text_of(document, "verification_url")
    if not code or not user_code or not url:
        return None
    interval = number_of(document, "interval") or DEFAULT_INTERVAL
    return DeviceCode(
        code=code,
        user_code=user_code,
        url=url,
        seconds=min(number_of(document, "expires_in") or MAX_LOGIN_SECONDS, MAX_LOGIN_SECONDS),
        interval=min(max(interval, MIN_INTERVAL), MAX_INTERVAL),
        complete_url=text_of(document, "verification_uri_complete"),
        message=text_of(document, "message"),
    )


def poll_for_login(
    code: DeviceCode,
    ask: Callable[[Deadline], Reply],
    limit: Deadline,
    pause: Callable[[float], None] = sleep,
) -> Reply | None:
    """Return the response that ends the wait, with tokens or an error; None if *limit* leaves no time for another.

    *ask* sends one request for tokens, by its own deadline. It is called again while the user has not entered the code,
    less often if the server says so, is busy, fails or does not answer in time.
    """
    interval = code.interval
    while interval < limit.seconds_left:
        pause(interval)
        try:
            reply = ask(limit.within(_REQUEST_SECONDS))
        except HttpError as error:
            if not error.is_timeout:
                raise
        else:
            error_code, _ = error_of(reply)
            if reply.is_success or not _is_waiting(error_code, reply.status):
                return reply
            if error_code == "authorization_pending":
                continue
        interval = min(interval + _SLOWER_BY, MAX_INTERVAL)
    return None


def _is_waiting(error_code: str, status: int) -> bool:
    if error_code:
        return error_code in ("authorization_pending", "slow_down")
    return status == _TOO_MANY or status >= _SERVER_ERRORS
