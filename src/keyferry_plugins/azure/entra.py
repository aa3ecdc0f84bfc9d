"""Entra's token requests: the application, the request, and the meaning of its errors."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.sdk import HttpError, ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Reply, Retry
    from keyferry_plugins.azure.tokens import Token

__all__ = [
    "ASSERTION_TYPE",
    "Application",
    "EntraError",
    "assertion_fields",
    "post_form",
    "read_reply",
    "request_token",
]

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_TENANT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")
_CLIENT_ERRORS = range(400, 500)
_DIGITS = "0123456789"


class EntraError(ProvideError):
    """An error response; *error* is the OAuth error code, *number* Entra's own, such as ``AADSTS700213``."""

    def __init__(self, message: str, hint: str = "", error: str = "", number: str = "") -> None:
        super().__init__(message, hint)
        self.args = (message, hint, error, number)
        self.error = error
        self.number = number


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
        if not self.tenant or not _TENANT.issuperset(self.tenant) or ".." in self.tenant:
            raise ProvideError(
                f"the tenant {self.tenant[:80]!r} is neither an ID nor a domain name",
                "give the tenant's ID, or one of its domain names",
            )
        return f"{self.authority}{self.tenant}/{path}"

    @property
    def token_url(self) -> str:
        """The URL of the token endpoint."""
        return self.url("oauth2/token" if self.is_adfs else "oauth2/v2.0/token")


def assertion_fields(assertion: str) -> dict[str, str]:
    """Return the form fields that authenticate a client by a signed assertion."""
    return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}


def request_token(
    application: Application,
    fields: Mapping[str, str],
    *,
    deadline: Deadline,
    secrets: tuple[str, ...] = (),
    retry: Retry | None = None,
) -> Token:
    """Return a token by the grant in *fields*; errors never contain *secrets*."""
    form = {"client_id": application.client_id, **fields}
    reply = post_form(application.token_url, form, application, deadline=deadline, retry=retry)
    return read_reply(reply, secrets)


def post_form(
    url: str,
    fields: Mapping[str, str],
    application: Application,
    *,
    deadline: Deadline,
    retry: Retry | None = None,
) -> Reply:
    """Send a form to one of the tenant's endpoints and return the response."""
    from keyferry._net.forms import encode_form
    from keyferry.sdk.http import Retry, fetch

    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if application.user_agent:
        headers["User-Agent"] = application.user_agent
    body = encode_form(fields)
    return fetch("POST", url, deadline=deadline, headers=headers, body=body, retry=retry or Retry())


def read_reply(reply: Reply, secrets: tuple[str, ...] = ()) -> Token:
    """Return the token in a response of Entra; raise EntraError if it is an error response."""
    if not reply.is_success:
        raise refusal(reply, secrets)
    from keyferry_plugins.azure.tokens import read_token

    return read_token(reply)


def refusal(reply: Reply, secrets: tuple[str, ...] = ()) -> EntraError:
    """Return the error for an error response, with the text of known fields only."""
    from keyferry.sdk.messages import shown
    from keyferry_plugins.azure.tokens import text_of

    try:
        document = reply.json()
    except HttpError:
        document = {}
    error, description = text_of(document, "error"), text_of(document, "error_description")
    number = _number(description)
    said = ": ".join(shown(part, known=secrets) for part in (error, description) if part)
    message = f"{reply.url}: refused with status {reply.status}" + (f": {said}" if said else "")
    failure = EntraError(message, _hint(reply, number), error, number)
    failure.retry_after_seconds = reply.retry_after_seconds
    return failure


def _number(description: str) -> str:
    _, mark, rest = description.partition("AADSTS")
    digits = rest[: len(rest) - len(rest.lstrip(_DIGITS))]
    return f"{mark}{digits[:9]}" if digits else ""


def _hint(reply: Reply, number: str) -> str:
    if number in _HINTS:
        return _HINTS[number]
    if reply.status == 429:  # too many requests
        return "too many requests were made for this client; wait, and send fewer"
    if number:
        return f"what it means: https://login.microsoftonline.com/error?code={number.removeprefix('AADSTS')}"
    if reply.status in _CLIENT_ERRORS:
        return "check the tenant, the client ID and the authority host"
    return "try again later; the state of the service: https://azure.status.microsoft"


_FEDERATED = (
    "add a federated credential to the application or managed identity, with the issuer, subject and audience of the"
    " token"
)
_HINTS = {
    "AADSTS50034": "check the user name",
    "AADSTS50076": "multi-factor authentication is required, so a password is not enough; use --login devicecode",
    "AADSTS50079": "the user must set up multi-factor authentication; use --login devicecode",
    "AADSTS50126": "check the user name and the password; accounts of a federated domain need --login devicecode",
    "AADSTS65001": "an administrator must consent to the application's use of the cluster's server application",
    "AADSTS70008": "the grant has expired; log in again",
    "AADSTS70021": _FEDERATED,
    "AADSTS700016": "the application is not in this tenant; check the client ID and the tenant ID",
    "AADSTS700024": "the assertion is not valid now; check this machine's clock, and that the token file is renewed",
    "AADSTS700027": "upload the certificate to the application: az ad app credential reset --cert --append",
    "AADSTS700082": "the refresh token has expired; log in again",
    "AADSTS700211": _FEDERATED,
    "AADSTS700212": _FEDERATED,
    "AADSTS700213": _FEDERATED,
    "AADSTS500011": "check --server-id; for AKS it is 6dae42f8-4368-4678-94ff-3960e28e3630",
    "AADSTS7000215": "give the value of the client secret, not its ID; or make a new one: az ad app credential reset",
    "AADSTS7000218": "allow public client flows in the application's settings, or use --login spn",
    "AADSTS7000222": "the client secret or certificate has expired; make a new one: az ad app credential reset",
    "AADSTS90002": "check the tenant ID, and that the cloud is the tenant's",
}
