"""Calls to Google's endpoints in one run, and their answers: a token and its lifetime, or an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from re import sub
from time import time

from keyferry._core.json import dumps, read_object
from keyferry._core.values import Value, field
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import HttpOptions, Reply, Retry, fetch
from keyferry.sdk.messages import shown
from keyferry_plugins.oauth.answers import Token, is_number, is_visible, refused
from keyferry_plugins.oauth.calls import check_https, post_form

STS_URL = "https://sts.googleapis.com/v1/token"
EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
# Within the kubelet's 60 s, with time for a process to start on a busy node.
RUN_SECONDS = 50.0
# No token of Google's is valid for longer; a longer lifetime in a response is ignored.
MAX_LIFETIME_SECONDS = 12 * 3600.0
_MAX_DIGITS = 12
_MAX_SOURCE_BYTES = 1 << 20
# Access tokens, refresh tokens and client secrets in Google's formats, which the general masking does not
# cover.
_SHAPES = r"\bya29\.[\w.~+/=-]+|\b[14]//[\w.~+/=-]{6,}|\bGOCSPX-[\w-]+|\bAIza[\w-]{10,}"
_MASK = "********"


class Calls(Value):
    """The deadline, environment, clock and retry policy that all calls of one run share."""

    deadline: Deadline
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    now: Callable[[], float] = time
    retry: Retry = Retry()
    is_compat: bool = False

    def setting(self, name: str) -> str:
        """Return a variable of the environment, or an empty string."""
        return self.environ.get(name, "")

    def post_form(
        self, url: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Post a form to one of Google's endpoints and return the response."""
        return post_form(
            url,
            fields,
            deadline=self.deadline,
            headers=headers,
            retry=self.retry,
            options=self._options,
        )

    def post_json(
        self, url: str, document: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Post a JSON document to one of Google's endpoints and return the response."""
        return fetch(
            "POST",
            url,
            deadline=self.deadline,
            headers={"Content-Type": "application/json", "Accept": "application/json", **(headers or {})},
            body=dumps(dict(document)).encode(),
            retry=self.retry,
            options=self._options,
        )

    @property
    def _options(self) -> HttpOptions:
        return HttpOptions(attempt_seconds=30 if self.is_compat else 15)

    def fetch_source(self, method: str, url: str, headers: Mapping[str, str]) -> Reply:
        """Send a request to a server of subject tokens; without TLS, never through a proxy."""
        # Plain http means another cloud's metadata server, whose tokens no proxy may see.
        options = HttpOptions(
            use_proxy=url.startswith("https://"),
            connect_seconds=3,
            attempt_seconds=10,
            most_bytes=_MAX_SOURCE_BYTES,
        )
        return fetch(method, url, deadline=self.deadline, headers=headers, retry=self.retry, options=options)


def check_endpoint(url: str, where: str) -> str:
    """Return *url* if a secret may be sent there, by TLS or to loopback; raise ProvideError otherwise."""
    return check_https(url, where, "a credential is only sent over TLS; correct the file")


def told(text: object, known: tuple[str, ...] = (), most: int = 300) -> str:
    """Return the text of a server or program, shortened and without secrets, for a message."""
    clean = str(text)
    # The caller's own secrets first: a pattern may cover only a part of one.
    for secret in sorted(filter(None, known), key=len, reverse=True):
        clean = clean.replace(secret, _MASK)
    return shown(sub(_SHAPES, _MASK, clean), most, known)


def refusal(reply: Reply, what: str, hint: str, known: tuple[str, ...] = ()) -> ProvideError:
    """Return the error for an error response, with its status and the fields in which Google gives the reason."""
    reason = _reason(reply, known)
    return refused(
        reply, f"{what}: {reply.url} answered status {reply.status}{reason and f' ({reason})'}", hint
    )


def _reason(reply: Reply, known: tuple[str, ...]) -> str:
    document = read_object(reply.body) or {}
    error = document.get("error")
    if isinstance(error, dict):
        parts = [error.get("status"), error.get("message")]
    else:
        parts = [error, document.get("error_subtype"), document.get("error_description")]
    return ": ".join(told(part, known) for part in parts if isinstance(part, str) and part)


def access_token(reply: Reply, calls: Calls, what: str, origin: str) -> Token:
    """Return the token in a successful OAuth response; raise ProvideError, which quotes none of it, if it has none."""
    document = reply.json()
    value = check_token(document.get("access_token"), what, f"{reply.url}: access_token")
    seconds = lifetime(document.get("expires_in"))
    return Token(value=value, expires_at=None if seconds is None else calls.now() + seconds, origin=origin)


def check_token(value: object, what: str, where: str) -> str:
    """Return *value* if it is a token that is valid in an HTTP header; raise ProvideError otherwise."""
    if not isinstance(value, str) or not value:
        raise ProvideError(f"{what}: {where} is missing, expected a token")
    if not is_visible(value):
        raise ProvideError(f"{what}: {where} has characters that are not valid in an HTTP header")
    return value


def lifetime(value: object) -> float | None:
    """Return the seconds of ``expires_in``, a number or digits; None if it is implausible or not positive."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
        value = int(value)
    if not is_number(value) or not value > 0:
        return None
    return float(min(value, MAX_LIFETIME_SECONDS))
