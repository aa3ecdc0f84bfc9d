"""Log in on another device: the user opens a page and enters a code while the plugin waits."""

from __future__ import annotations

from time import sleep

from keyferry._core.values import Value, field
from keyferry.sdk import Deadline, HttpError, ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk.http import Reply
    from keyferry_plugins.azure.entra import Application, EntraError
    from keyferry_plugins.azure.options import Options
    from keyferry_plugins.azure.tokens import Token

__all__ = ["USER_SCOPES", "log_in_by_device_code"]

USER_SCOPES = "openid offline_access profile"
_LEGACY_PATH = "oauth2/devicecode?api-version=1.0"
_INTERVAL_SECONDS = 5.0
_SLOWER_SECONDS = 5.0
_MOST_SECONDS = 1800.0
_POLL_SECONDS = 30.0


class Code(Value):
    """The code and page for the user, and the interval and expiry of polling, in seconds."""

    device_code: str = field(repr=False)
    message: str
    lifetime: float
    interval: float


def log_in_by_device_code(
    options: Options, application: Application, deadline: Deadline, *, is_patient: bool
) -> Token:
    """Return a token for the user who enters the code; *is_patient* waits until the code expires."""
    from keyferry.sdk import tell

    code = _start(options, application, deadline)
    tell(code.message)
    limit = Deadline(code.lifetime) if is_patient else deadline
    return _poll(options, application, code, limit)


def _start(options: Options, application: Application, deadline: Deadline) -> Code:
    from keyferry_plugins.azure.entra import post_form, refusal

    fields = {"client_id": application.client_id}
    if options.is_legacy:
        url, fields["resource"] = application.url(_LEGACY_PATH), options.resource
    else:
        url = application.url("oauth2/v2.0/devicecode")
        fields["scope"] = f"{options.scope} {USER_SCOPES}"
    reply = post_form(url, fields, application, deadline=deadline)
    if not reply.is_success:
        raise refusal(reply)
    return _read_code(reply)


def _read_code(reply: Reply) -> Code:
    from keyferry.sdk.messages import shown
    from keyferry_plugins.azure.tokens import read_instant, text_of

    document = reply.json()
    device_code = text_of(document, "device_code")
    page = text_of(document, "verification_uri") or text_of(document, "verification_url")
    user_code = text_of(document, "user_code")
    message = text_of(document, "message") or f"to log in, open {page} and enter the code {user_code}"
    if not device_code or not (page and user_code):
        raise HttpError(reply.url, "answered without a user code and a verification page")
    # read_instant accepts numbers and, as version 1 of the endpoint sends, numbers in strings.
    lifetime = read_instant(document.get("expires_in")) or _MOST_SECONDS
    interval = read_instant(document.get("interval"))
    return Code(
        device_code,
        shown(message, 600, (device_code,)),
        min(lifetime, _MOST_SECONDS),
        _INTERVAL_SECONDS if interval is None else min(interval, 60.0),
    )


def _poll(options: Options, application: Application, code: Code, limit: Deadline) -> Token:
    from keyferry_plugins.azure.entra import EntraError, read_reply

    interval = code.interval
    while True:
        if interval >= limit.seconds_left:
            raise ProvideError(
                "nobody logged in before the time limit",
                "run it again, and enter the code before it expires",
            )
        sleep(interval)
        reply = _ask(options, application, code, limit)
        try:
            return read_reply(reply, (code.device_code,))
        except EntraError as error:
            if error.error == "slow_down":
                interval += _SLOWER_SECONDS
            elif error.error != "authorization_pending":
                refused = error
                break
    raise EntraError(refused.message, _hint(refused), refused.error, refused.number)


def _ask(options: Options, application: Application, code: Code, limit: Deadline) -> Reply:
    from keyferry_plugins.azure.entra import post_form
    from keyferry_plugins.azure.service_principal import LEGACY_PATH

    fields = {"grant_type": "device_code", "client_id": application.client_id}
    if options.is_legacy:
        url = application.url(LEGACY_PATH)
        fields |= {"code": code.device_code, "resource": options.resource}
    else:
        url = application.token_url
        fields |= {"device_code": code.device_code}
    return post_form(url, fields, application, deadline=limit.within(_POLL_SECONDS))


def _hint(refused: EntraError) -> str:
    meanings = {
        "authorization_declined": "the login was declined; run it again",
        "access_denied": "the login was declined; run it again",
        "expired_token": "the code has expired; run it again",
        "code_expired": "the code has expired; run it again",
    }
    return meanings.get(refused.error, refused.hint)
