"""Requests to token endpoints."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping

from keyferry._net.forms import encode_form, encode_query
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import HttpOptions, Reply, Retry, fetch, is_safe_for_secrets


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


def with_query(url: str, fields: Mapping[str, str]) -> str:
    """Return *url*, which may have a query already, with *fields* added to it."""
    return f"{url}{'&' if '?' in url else '?'}{encode_query(fields)}"


def ask_github(
    url: str, token: str, audience: str, deadline: Deadline, options: HttpOptions = HttpOptions()
) -> Reply:
    """Request an OIDC token of the current GitHub action; a successful response has it as ``value``."""
    headers = {"Authorization": f"bearer {token}", "Accept": "application/json; api-version=2.0"}
    return fetch(
        "GET", with_query(url, {"audience": audience}), deadline=deadline, headers=headers, options=options
    )


def basic_authorization(username: str, password: str) -> str:
    """Return the value of an Authorization header that authenticates a client by its password."""
    return f"Basic {b2a_base64(f'{username}:{password}'.encode(), newline=False).decode()}"


def check_https(url: str, what: str, hint: str = "a credential is sent there, so https is required") -> str:
    """Return *url* if a secret may be sent there, by TLS or to loopback; raise ProvideError if not."""
    if not is_safe_for_secrets(url):
        raise ProvideError(f"{what} is not an https:// URL", hint)
    return url
