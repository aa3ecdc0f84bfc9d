"""Log in with a code that the user enters in a browser on any machine (RFC 8628)."""

from __future__ import annotations

from time import sleep

from keyferry._core.values import Value, field
from keyferry.sdk import Deadline, HttpError, ProvideError, tell
from keyferry.sdk.http import Retry
from keyferry.sdk.messages import shown
from keyferry_plugins.openid.client import Refusal, Tokens, ask_tokens, explain, read_refusal, scope_of, send
from keyferry_plugins.openid.discovery import check_url
from keyferry_plugins.openid.fields import number_of, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from keyferry_plugins.openid.discovery import Issuer
    from keyferry_plugins.openid.options import Options

__all__ = ["Device", "log_in_by_device"]

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_REQUEST_SECONDS = 30.0
_DEFAULT_INTERVAL = 5.0
_SLOWER_BY = 5.0
_SHORTEST_INTERVAL, _LONGEST_INTERVAL = 1.0, 60.0
# The limit of a wait in a terminal, whatever the issuer allows.
_LONGEST_LOGIN = 1800.0
_TOO_MANY, _SERVER_ERRORS = 429, 500
_WAITING = ("authorization_pending", "slow_down")


class Device(Value):
    """The issuer's device authorization: the codes, the page for the user, and the polling interval."""

    code: str = field(repr=False)
    user_code: str
    url: str
    complete_url: str
    seconds: float
    interval: float


def log_in_by_device(issuer: Issuer, options: Options, pause: Callable[[float], None] = sleep) -> Tokens:
    """Show the user a URL and a code, and wait until the code is entered; raise ProvideError on failure."""
    device = _start(issuer, options)
    tell(_invitation(device))
    return _poll(issuer, options, device, pause)


def _start(issuer: Issuer, options: Options) -> Device:
    if not issuer.device_endpoint:
        raise ProvideError(
            f"the issuer {issuer.url!r} offers no device code login",
            "choose another --grant-type: client-credentials, password or authcode-keyboard",
        )
    fields = {"scope": scope_of(options), **options.extra}
    deadline = Deadline(_REQUEST_SECONDS)
    reply = send(issuer, options, fields, deadline, url=issuer.device_endpoint, retry=Retry())
    if not reply.is_success:
        raise explain(read_refusal(reply, options), "a device code login")
    return _read_device(reply.json(), issuer.device_endpoint, is_local=issuer.is_local)


def _read_device(document: dict[str, object], url: str, *, is_local: bool) -> Device:
    texts = {
        name: text_of(document, name) for name in ("device_code", "user_code", "verification_uri_complete")
    }
    # Some issuers still use the name in an early draft.
    place = text_of(document, "verification_uri") or text_of(document, "verification_url")
    if not texts["device_code"] or not texts["user_code"] or not place:
        raise ProvideError(f"{url}: its response lacks device_code, user_code or verification_uri")
    complete = texts["verification_uri_complete"]
    for shown_url in filter(None, (place, complete)):
        # The user is told to open this URL and log in.
        check_url(shown_url, f"verification_uri of {url}", is_loopback_fine=is_local)
    lifetime = number_of(document, "expires_in") or _LONGEST_LOGIN
    interval = number_of(document, "interval") or _DEFAULT_INTERVAL
    return Device(
        texts["device_code"],
        texts["user_code"],
        place,
        complete,
        min(lifetime, _LONGEST_LOGIN),
        min(max(interval, _SHORTEST_INTERVAL), _LONGEST_INTERVAL),
    )


def _invitation(device: Device) -> str:
    """Return the text for the user; the issuer's codes are made safe for a terminal."""
    code, url, complete = (_fit(text) for text in (device.user_code, device.url, device.complete_url))
    direct = f"\n(or directly {complete})" if complete else ""
    return f"To log in, open\n\n    {url}\n\nin any browser and enter the code\n\n    {code}\n{direct}"


def _fit(text: str) -> str:
    return "".join(char for char in text[:2000] if " " < char < "\x7f" or char == " ")


def _poll(issuer: Issuer, options: Options, device: Device, pause: Callable[[float], None]) -> Tokens:
    seconds = min(device.seconds, options.login_seconds or device.seconds)
    deadline = Deadline(seconds)
    interval = device.interval
    fields = {"grant_type": _GRANT, "device_code": device.code}
    while interval < deadline.seconds_left:
        pause(interval)
        try:
            outcome = ask_tokens(issuer, options, fields, deadline.within(_REQUEST_SECONDS))
        except HttpError as error:
            if not error.is_timeout:
                raise
            outcome = Refusal(issuer.token_endpoint, _SERVER_ERRORS)
        if isinstance(outcome, Tokens):
            return outcome
        if not _is_waiting(outcome):
            raise explain(outcome, "the device code")
        # A slow server also needs a longer interval.
        slower = outcome.code != "authorization_pending"
        interval = min(interval + _SLOWER_BY, _LONGEST_INTERVAL) if slower else interval
    raise ProvideError(
        f"the code was not entered within {shown(int(seconds))} seconds",
        "run it again, and enter the new code in time",
    )


def _is_waiting(refusal: Refusal) -> bool:
    if refusal.code:
        return refusal.code in _WAITING
    return refusal.status == _TOO_MANY or refusal.status >= _SERVER_ERRORS
