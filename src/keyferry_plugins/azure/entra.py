"""Entra's token requests: the application, the request, the token in a response, and the meaning of errors."""

from __future__ import annotations

from collections.abc import Mapping
from time import time

from keyferry._core.values import Value
from keyferry.sdk import Deadline, HttpError, ProvideError
from keyferry.sdk.http import Reply, Retry
from keyferry.sdk.messages import shown
from keyferry_plugins.oauth.answers import (
    MAX_SECONDS,
    Token,
    error_of,
    is_visible,
    number_of,
    read_number,
    read_time,
    text_of,
)
from keyferry_plugins.oauth.calls import post_form

_TENANT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


class EntraError(ProvideError):
    """An error response; *error* is the OAuth error code, *number* Entra's own, such as ``AADSTS700213``."""

    def __init__(
        self, message: str, hint: str = "", error: str = "", number: str = "", *, retry_after_seconds: int = 0
    ) -> None:
        super().__init__(message, hint, retry_after_seconds=retry_after_seconds)
        self.args = (message, hint, error, number)
        self.error = error
        self.number = number

    def with_hint(self, hint: str) -> EntraError:
        """Return the same error with another hint."""
        return EntraError(
            self.message, hint, self.error, self.number, retry_after_seconds=self.retry_after_seconds
        )


def check_tenant(tenant: str) -> str:
    """Return *tenant* if it is an ID or a domain name; raise ProvideError if not."""
    if not tenant or not _TENANT.issuperset(tenant) or ".." in tenant:
        raise ProvideError(
            f"the tenant {tenant[:80]!r} is neither an ID nor a domain name",
            "give the tenant's ID, or one of its domain names",
        )
    return tenant


class Application(Value):
    """An application (client) in a tenant, and the authority that issues the tenant's tokens."""

    authority: str
    tenant: str
    client_id: str
    user_agent: str = ""

    @property
    def is_adfs(self) -> bool:
        """Whether AD FS issues the tokens, which supports less than Entra."""
        return self.tenant.lower() == "adfs"

    def url(self, path: str) -> str:
        """Return the URL of an endpoint of the tenant; raise ProvideError if the tenant is malformed."""
        return f"{self.authority}{check_tenant(self.tenant)}/{path}"

    def token_url(self, *, is_legacy: bool = False) -> str:
        """Return the URL of the token endpoint; the one of version 1 if it *is_legacy*."""
        if is_legacy:
            return self.url("oauth2/token?api-version=1.0")
        return self.url("oauth2/token" if self.is_adfs else "oauth2/v2.0/token")

    def post(
        self, url: str, fields: Mapping[str, str], deadline: Deadline, retry: Retry | None = None
    ) -> Reply:
        """Send a form with the client's ID to one of the tenant's endpoints, and return the response."""
        return post_form(
            url,
            {"client_id": self.client_id, **fields},
            deadline=deadline,
            headers={"User-Agent": self.user_agent} if self.user_agent else None,
            retry=retry or Retry(),
        )


def assertion_fields(assertion: str) -> dict[str, str]:
    """Return the form fields that authenticate a client by a signed assertion."""
    return {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": assertion,
    }


def request_token(
    application: Application,
    fields: Mapping[str, str],
    *,
    deadline: Deadline,
    secrets: tuple[str, ...] = (),
    retry: Retry | None = None,
    is_legacy: bool = False,
) -> Token:
    """Return a token by the grant in *fields*; errors never contain *secrets*."""
    url = application.token_url(is_legacy=is_legacy)
    return read_token(application.post(url, fields, deadline, retry), secrets=secrets)


def read_token(reply: Reply, name: str = "access_token", *, secrets: tuple[str, ...] = ()) -> Token:
    """Return the token in a response; raise EntraError for an error response, and HttpError if there is no token."""
    if not reply.is_success:
        raise refusal(reply, secrets)
    document = reply.json()
    value = text_of(document, name)
    if not value or not is_visible(value):
        raise HttpError(reply.url, f"answered status {reply.status} without a usable {name!r}")
    expires_at = read_instant(document.get("expires_on"))
    seconds = number_of(document, "expires_in")
    if expires_at is None and seconds is not None:
        expires_at = min(time() + seconds, MAX_SECONDS)
    return Token(value=value, expires_at=expires_at, refresh_token=text_of(document, "refresh_token"))


def read_instant(value: object) -> float | None:
    """Return a time in Unix seconds, from a number, a number in a string, or a date; None for anything else."""
    number = read_number(value)
    if number is not None or not isinstance(value, str):
        return number
    return read_time(_american(value) or value)


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
    if "PM" in rest and number < 12:
        number += 12
    elif "AM" in rest and number == 12:
        number = 0
    month, day, year = parts
    zone = rest[-1] if rest[-1][0] in "+-" else "Z"
    return f"{year}-{month:0>2}-{day:0>2}T{number:02}:{minutes}{zone}"


def refusal(reply: Reply, secrets: tuple[str, ...] = ()) -> EntraError:
    """Return the error for an error response, with the text of known fields only."""
    error, description = error_of(reply)
    _, mark, rest = description.partition("AADSTS")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    number = f"{mark}{digits[:9]}" if digits else ""
    said = "".join(f": {shown(part, known=secrets)}" for part in (error, description) if part)
    message = f"{reply.url}: refused with status {reply.status}{said}"
    return EntraError(
        message, _hint(reply, number), error, number, retry_after_seconds=reply.retry_after_seconds
    )


def _hint(reply: Reply, number: str) -> str:
    if number in _HINTS:
        return _HINTS[number]
    if reply.status == 429:  # too many requests
        return "too many requests were made for this client; wait, and send fewer"
    if number:
        return f"what it means: https://login.microsoftonline.com/error?code={number.removeprefix('AADSTS')}"
    if 400 <= reply.status < 500:
        return "check the tenant, the client ID and the authority host"
    return "try again later; the state of the service: https://azure.status.microsoft"


_FEDERATED = (
    "add a federated credential to the application or managed identity, with the issuer, subject and audience of the"
    " token"
)
_HINTS = {
    "AADSTS50034": "check the user name",
    "AADSTS70008": "the grant has expired; log in again",
    "AADSTS70021": _FEDERATED,
    "AADSTS700016": "the application is not in this tenant; check the client ID and the tenant ID",
    "AADSTS700024": "the assertion is not valid now; check this machine's clock, and that the token file is renewed",
    "AADSTS700027": "upload the certificate to the application: az ad app credential reset --cert --append",
    "AADSTS700082": "the refresh token has expired; log in again",
    "AADSTS700211": _FEDERATED,
    "AADSTS700212": _FEDERATED,
    "AADSTS700213": _FEDERATED,
    "AADSTS7000215": "give the value of the client secret, not its ID; or make a new one: az ad app credential reset",
    "AADSTS7000222": "the client secret or certificate has expired; make a new one: az ad app credential reset",
    "AADSTS90002": "check the tenant ID, and that the cloud is the tenant's",
}
