"""Calls of AWS services: signing, retries, and error messages that include advice."""

from __future__ import annotations

from keyferry._core.values import Value, field
from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.http import Retry, fetch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk.http import Reply
    from keyferry_plugins.aws.credentials import Credentials
    from keyferry_plugins.aws.endpoints import Endpoint
    from keyferry_plugins.aws.environment import Environment
    from keyferry_plugins.aws.failures import Refusal

__all__ = ["Call", "json_call", "query_call", "send"]

_LONGEST_WAIT_SECONDS = 20.0
# AWS accepts signatures whose time is off by up to five minutes.
_TOLERATED_SECONDS = 240


class Call(Value):
    """One call; *right* is the IAM action it needs, *retried* are error codes to retry besides the usual ones."""

    action: str
    endpoint: Endpoint
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    right: str = ""
    retried: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name of the call in messages."""
        return f"{self.endpoint.service} {self.action} at {self.endpoint.url}"


def json_call(endpoint: Endpoint, target: str, right: str) -> Call:
    """Return a call without arguments in AWS' JSON protocol; *target* is the service's internal name and the action."""
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
    return Call(target.rpartition(".")[2], endpoint, headers, b"{}", right)


def query_call(
    endpoint: Endpoint,
    fields: Mapping[str, str],
    right: str,
    *,
    retried: frozenset[str] = frozenset(),
    secrets: tuple[str, ...] = (),
) -> Call:
    """Return a call in AWS' query protocol, a form; *secrets* are the field values that no message may contain."""
    from keyferry._net.forms import encode_form

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return Call(fields["Action"], endpoint, headers, encode_form(fields), right, retried, secrets)


def send(environment: Environment, call: Call, credentials: Credentials | None) -> Reply:
    """Make a call, signed if *credentials* are given, and return its response; raise ProvideError on failure."""
    now = environment.now()
    reply = _fetch(environment, call, credentials, now)
    if reply.is_success:
        return reply
    from keyferry_plugins.aws.failures import read_refusal

    refusal = read_refusal(reply)
    skew = _skew(reply, now)
    if credentials is not None and refusal.is_of_clock and abs(skew) > _TOLERATED_SECONDS:
        # The server's time is accurate enough to sign with; the user is still told that the local clock is
        # wrong.
        reply = _fetch(environment, call, credentials, now + skew)
        if reply.is_success:
            return reply
        refusal = read_refusal(reply)
    raise _failure(call, credentials, reply, refusal, skew)


def _fetch(environment: Environment, call: Call, credentials: Credentials | None, now: float) -> Reply:
    headers = call.headers if credentials is None else _sign(call, credentials, now)
    retry = Retry(
        attempts=environment.attempts(),
        most_seconds=_LONGEST_WAIT_SECONDS,
        is_transient=lambda reply: not reply.is_success and _is_transient(reply, call),
    )
    try:
        return fetch(
            "POST",
            call.endpoint.url,
            deadline=environment.deadline,
            headers=headers,
            body=call.body,
            retry=retry,
            options=environment.http_options(),
        )
    except HttpError as error:
        hint = error.hint or (
            "check that this machine reaches it: name service, route or VPC endpoint, HTTPS_PROXY and NO_PROXY"
        )
        message = f"{call.endpoint.service} {call.action}: {error.message}"
    raise ProvideError(message, hint)


def _is_transient(reply: Reply, call: Call) -> bool:
    from keyferry_plugins.aws.failures import is_transient

    return is_transient(reply, call.retried)


def _sign(call: Call, credentials: Credentials, now: float) -> dict[str, str]:
    from keyferry._net.http_errors import split_url
    from keyferry_plugins.signing.sigv4 import sign_headers

    origin = split_url(call.endpoint.url)
    return sign_headers(
        credentials,
        method="POST",
        host=origin.authority,
        path=origin.target.partition("?")[0],
        headers=call.headers,
        body=call.body,
        region=call.endpoint.region,
        service=call.endpoint.service,
        now=now,
    )


def _skew(reply: Reply, now: float) -> float:
    """Return by how many seconds the server's clock is ahead of the local one; 0 if the response has no date."""
    sent_at = reply.sent_at
    return 0.0 if sent_at is None else sent_at - now


def _failure(
    call: Call, credentials: Credentials | None, reply: Reply, refusal: Refusal, skew: float
) -> ProvideError:
    from keyferry.sdk.messages import shown

    known = (*call.secrets, *(credentials.secrets if credentials is not None else ()))
    said = ": ".join(filter(None, (refusal.code, shown(refusal.message, known=known))))
    message = f"{call.name}: status {reply.status}" + (f", {said}" if said else ", without a reason")
    hint = refusal.advice(call.right, credentials.source if credentials is not None else "")
    if refusal.is_of_clock and abs(skew) > _TOLERATED_SECONDS:
        hint = f"this machine's clock is off by {abs(skew):.0f} seconds: set it"
    return ProvideError(message, hint, retry_after_seconds=reply.retry_after_seconds)
