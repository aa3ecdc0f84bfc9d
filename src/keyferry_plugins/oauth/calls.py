"""Requests to token endpoints."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping

from keyferry._net.forms import encode_form
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import HttpOptions, Retry, fetch, is_safe_for_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk.http import Reply

__all__ = ["basic_authorization", "check_https", "post_form"]


def post_form(
    url: str,
    fields: Mapping[str, str],
    *,
    deadline: Deadline,
    headers: Mapping[str, str] | None = None,
    retry: Retry = Retry(),
    options: HttpOptions = HttpOptions(),
) -> Reply:
    """Post a form and return the response, which is to be JSON; *headers* are added to those of the form."""
    usual = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    return fetch(
        "POST",
        url,
        deadline=deadline,
        headers={**usual, **(headers or {})},
        body=encode_form(fields),
        retry=retry,
        options=options,
    )


def basic_authorization(username: str, password: str) -> str:
    """Return the value of an Authorization header that authenticates a client by its password."""
    return f"Basic {b2a_base64(f'{username}:{password}'.encode(), newline=False).decode()}"


def check_https(url: str, what: str, hint: str = "a credential is sent there, so https is required") -> str:
    """Return *url* if a secret may be sent there, by TLS or to loopback; raise ProvideError if not."""
    if not is_safe_for_secrets(url):
        raise ProvideError(f"{what} is not an https:// URL", hint)
    return url
