"""HTTP for plugins, on the standard library's sockets: deadlines, bounded retries, proxies, verified TLS.

A request never follows a redirect, so a credential in it is sent to its own host only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import sleep, time

from keyferry._core.json import read_object
from keyferry._core.values import Value, field
from keyferry._net.address import is_loopback_host
from keyferry._net.client import Client
from keyferry._net.dates import parse_date, parse_retry_after
from keyferry._net.deadline import Deadline, WaitLimits
from keyferry._net.errors import NetworkError, UntrustedError
from keyferry._net.http_errors import split_url, to_http_error
from keyferry._net.messages import header_values
from keyferry._net.proxy import Origin, choose_proxy
from keyferry._net.trust import Thumbprint, Tls, Trust, default_context
from keyferry.errors import HttpError

__all__ = ["ONCE", "HttpOptions", "Reply", "Retry", "Thumbprint", "fetch", "is_safe_for_secrets"]

_THROTTLED = 429
_TRANSIENT = frozenset((408, _THROTTLED, 500, 502, 503, 504))
_JITTER_STEPS = 65536
_PRIVATE_AUTHORITY = (
    "if a proxy or a private authority issued it, set SSL_CERT_FILE to a bundle with that authority"
)


class Reply(Value):
    """A response that was read entirely; *url* is without query and user info."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def values(self, name: str) -> list[str]:
        """Return all values of a header, whose name is given in lower case."""
        return header_values(self.headers, name)

    @property
    def sent_at(self) -> float | None:
        """The Unix time of the server's own clock, from the Date; None without a valid one."""
        return parse_date(next(iter(self.values("date")), "").strip())

    @property
    def retry_after_seconds(self) -> int:
        """The pause that the server asks for, 0 if it asks for none.

        A date counts from the server's own one, so that clocks may differ, or else from this machine's clock.
        """
        sent_at = self.sent_at
        asked = next(iter(self.values("retry-after")), "")
        return parse_retry_after(asked, time() if sent_at is None else sent_at)

    def json(self) -> dict[str, object]:
        """Return the body as a JSON object; raise HttpError, which does not quote it, if it is anything else."""
        document = read_object(self.body)
        if document is None:
            raise HttpError(self.url, f"returned status {self.status} with a body that is not a JSON object")
        return document


class Retry(Value):
    """The number of attempts and the delay between them, which doubles each time, with jitter, up to a limit."""

    attempts: int = 3
    first_seconds: float = 0.5
    most_seconds: float = 8.0
    is_transient: Callable[[Reply], bool] = lambda reply: reply.status in _TRANSIENT

    def delay(self, number: int) -> float:
        """Return the seconds to wait after attempt *number*, counted from 1: half of the full delay up to all of it."""
        full = min(self.first_seconds * 2.0 ** (number - 1), self.most_seconds)
        return full * (0.5 + int.from_bytes(os.urandom(2), "big") / (2 * _JITTER_STEPS))


# One attempt, for requests that must not be sent twice.
ONCE = Retry(attempts=1)


class HttpOptions(Value):
    """Connection settings: whether to use the environment's proxy, the trusted authorities, the time limits.

    *ca_file* is a bundle to trust in place of the system's, *ca_data* one as PEM text; without them SSL_CERT_FILE and
    SSL_CERT_DIR apply. With *is_insecure* any certificate is trusted; set it only at the user's request. *address* is
    used in place of the host's own, and never with a proxy. *attempt_seconds* limits one attempt from name resolution
    to the last byte of the response. With a *thumbprint*, only the certificate that has it is trusted.
    """

    use_proxy: bool = True
    ca_file: str = ""
    ca_data: str = ""
    is_insecure: bool = False
    address: str = ""
    connect_seconds: float = 5.0
    attempt_seconds: float = 15.0
    most_bytes: int = 10 * 1024 * 1024
    thumbprint: Thumbprint | None = None


def fetch(
    method: str,
    url: str,
    *,
    deadline: Deadline,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    retry: Retry = Retry(),
    options: HttpOptions = HttpOptions(),
) -> Reply:
    """Send a request and return the whole response, with any status; raise HttpError if there is none.

    Connection failures and transient statuses are retried according to *retry*, as long as *deadline* leaves time. A
    Retry-After is respected, and ends the attempts if it exceeds the deadline. An untrusted certificate is not retried.
    """
    failure: HttpError | None = None
    try:
        origin = split_url(url)
        request = _Request(method=method, origin=origin, headers=tuple((headers or {}).items()), body=body)
        reply, problem = _try(request, options, deadline, retry)
        failure = None if problem is None else to_http_error(problem, str(origin), _PRIVATE_AUTHORITY)
    except HttpError as error:
        failure = error.with_traceback(None)
    if failure is None:
        return reply
    # A traceback with locals must not show them either.
    origin = request = reply = None  # type: ignore[assignment] # not read any more
    del url, headers, body
    raise failure


class _Request(Value):
    """The request that all attempts send."""

    method: str
    origin: Origin
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)


def _try(
    request: _Request, options: HttpOptions, deadline: Deadline, retry: Retry
) -> tuple[Reply, NetworkError | None]:
    """Make attempts as long as another one may succeed."""
    # A certificate with a known thumbprint needs no authority: the thumbprint is compared before any data is sent.
    is_insecure = options.is_insecure or options.thumbprint is not None
    tls = Tls(Trust(ca_file=options.ca_file, ca_data=options.ca_data, is_insecure=is_insecure))
    number = 0
    while True:
        number += 1
        reply, failure = _attempt(request, options, tls, deadline)
        if isinstance(failure, UntrustedError) and tls.widen():
            reply, failure = _attempt(request, options, tls, deadline)
        if failure is None and not retry.is_transient(reply):
            return reply, None
        wait = max(retry.delay(number), float(reply.retry_after_seconds))
        is_final = failure is not None and failure.is_final
        if number >= retry.attempts or wait >= deadline.seconds_left or is_final:
            return reply, failure
        sleep(wait)


def _attempt(
    request: _Request, options: HttpOptions, tls: Tls, deadline: Deadline
) -> tuple[Reply, NetworkError | None]:
    """Send one request; return its response, or an empty one and the error."""
    url = str(request.origin)
    try:
        with _client(options, tls, deadline).request(
            request.origin, request.method, request.headers, request.body
        ) as answer:
            received = answer.read(options.most_bytes)
            head = answer.head
            return Reply(url=url, status=head.status, headers=head.headers, body=received), None
    except NetworkError as error:
        return Reply(url=url, status=0, headers=(), body=b""), error.with_traceback(None)


def _client(options: HttpOptions, tls: Tls, deadline: Deadline) -> Client:
    return Client(
        tls.context,
        WaitLimits(connect_seconds=options.connect_seconds, answer_seconds=options.attempt_seconds),
        deadline,
        # The thumbprint is that of the server, not of a proxy.
        proxy_tls=(lambda: default_context(options.ca_file, options.ca_data)) if options.thumbprint else None,
        proxy=choose_proxy if options.use_proxy and not options.address else lambda _: None,
        address=options.address,
        check_certificate=None if options.thumbprint is None else options.thumbprint.check,
    )


def is_safe_for_secrets(url: str) -> bool:
    """Return whether a secret may be sent to *url*: by https, or by http to a loopback host; False if it is invalid."""
    try:
        origin = split_url(url)
    except HttpError:
        return False
    return origin.scheme == "https" or is_loopback_host(origin.host)
