"""Calls to Google's endpoints in one run: their deadline, retries, and allowed servers."""

from __future__ import annotations

import os
from time import time

from keyferry._core.json import dumps
from keyferry._core.values import Value, field
from keyferry._net.forms import encode_form
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import HttpOptions, Retry, fetch, is_safe_for_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry.sdk.http import Reply

__all__ = [
    "CLOUD_PLATFORM",
    "RUN_SECONDS",
    "Calls",
    "Token",
    "check_endpoint",
    "fetch_source",
    "post_form",
    "post_json",
]

CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
# Within the kubelet's 60 s, with time for a process to start on a busy node.
RUN_SECONDS = 50.0
_MOST_SOURCE_BYTES = 1 << 20


class Token(Value):
    """An access token, its expiry in Unix seconds if known, and the kind of credential it is from."""

    value: str = field(repr=False)
    expires_at: float | None = None
    origin: str = ""


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
    calls: Calls, url: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> Reply:
    """Post a form and return the response."""
    kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    return _post(calls, url, encode_form(fields), kind | dict(headers or {}))


def post_json(
    calls: Calls, url: str, document: Mapping[str, object], headers: Mapping[str, str] | None = None
) -> Reply:
    """Post a JSON document and return the response."""
    kind = {"Content-Type": "application/json", "Accept": "application/json"}
    return _post(calls, url, dumps(dict(document)).encode(), kind | dict(headers or {}))


def _post(calls: Calls, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
    options = HttpOptions(attempt_seconds=30 if calls.is_compat else 15)
    return fetch(
        "POST", url, deadline=calls.deadline, headers=headers, body=body, retry=calls.retry, options=options
    )


def fetch_source(calls: Calls, method: str, url: str, headers: dict[str, str]) -> Reply:
    """Send a request to a server of subject tokens; without TLS, never through a proxy."""
    # Plain http means another cloud's metadata server, whose tokens no proxy may see.
    options = HttpOptions(
        use_proxy=url.startswith("https://"),
        connect_seconds=3,
        attempt_seconds=10,
        most_bytes=_MOST_SOURCE_BYTES,
    )
    return fetch(method, url, deadline=calls.deadline, headers=headers, retry=calls.retry, options=options)


def check_endpoint(url: str, where: str) -> str:
    """Return *url* if a secret may be sent there, by TLS or to loopback; raise ProvideError otherwise."""
    if not is_safe_for_secrets(url):
        # Not quoted: it may contain a password.
        raise ProvideError(
            f"{where} is not an https:// URL", "a credential is only sent over TLS; correct the file"
        )
    return url
