"""HTTP for plugins, on the standard library's sockets: deadlines, bounded retries, proxies, verified TLS.

A request never follows a redirect, and a credential in it goes to the host it was meant for and no other.
"""

import os
from time import sleep

from keyferry._core.values import Value, field
from keyferry._net.errors import NetworkError, UntrustedError
from keyferry._net.trust import Thumbprint, Tls, Trust, default_context
from keyferry.errors import DocumentError, HttpError
from keyferry.sdk.proxy import split_url, to_http_error

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry._net.client import Client
    from keyferry._net.deadline import Deadline
    from keyferry._net.proxy import Origin

__all__ = ["ONCE", "HttpOptions", "Reply", "Retry", "Thumbprint", "fetch"]

_THROTTLED = 429
_TRANSIENT = frozenset((408, _THROTTLED, 500, 502, 503, 504))
_JITTER_STEPS = 65536
_TOO_MANY_DIGITS = 12


class Reply(Value):
    """An answer read to its end; *url* is without query and user info."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        """Tell whether the status is one of success."""
        return 200 <= self.status < 300

    def values(self, name: str) -> list[str]:
        """All values of a header, whose name is given in lower case."""
        return [value for found, value in self.headers if found == name]

    def json(self) -> dict[str, object]:
        """The body as a JSON object; raises HttpError, which quotes none of it."""
        from keyferry._core.json import loads

        document: object = None
        try:
            document = loads(self.body)
        except DocumentError:
            pass
        if not isinstance(document, dict):
            raise HttpError(
                self.url, f"answered status {self.status} with something that is not a JSON object"
            )
        return document


class Retry(Value):
    """How often to try, and how long to wait between: twice as long each time, with jitter, up to a limit."""

    attempts: int = 3
    first_seconds: float = 0.5
    most_seconds: float = 8.0
    is_transient: "Callable[[Reply], bool]" = lambda reply: reply.status in _TRANSIENT

    def delay(self, number: int) -> float:
        """Seconds to wait after attempt *number*, counted from 1: between half of the full wait and all of it."""
        full = min(self.first_seconds * 2.0 ** (number - 1), self.most_seconds)
        return full * (0.5 + int.from_bytes(os.urandom(2), "big") / (2 * _JITTER_STEPS))


ONCE = Retry(attempts=1)


class HttpOptions(Value):
    """How to get to a server: through the environment's proxy or not, which authorities to trust, how long to wait.

    *ca_file* is a bundle to trust in place of the system's, *ca_data* such a bundle as PEM text; SSL_CERT_FILE and
    SSL_CERT_DIR are honoured without them. One that *is_insecure* trusts any certificate: only where the user says
    so. *address* is dialled in place of the host's own, and never through a proxy. *attempt_seconds* bounds one
    attempt from name look-up to the last byte of the answer. One with a *thumbprint* trusts the certificate that has
    it, and no other.
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
    deadline: "Deadline",
    headers: "Mapping[str, str] | None" = None,
    body: bytes = b"",
    retry: Retry = Retry(),
    options: HttpOptions = HttpOptions(),
) -> Reply:
    """Send a request and read the whole answer, whatever its status; raises HttpError where there is none.

    Failures of the connection and transient statuses are tried again, as *retry* says, as long as *deadline*
    leaves time; a Retry-After is obeyed, and ends the attempts if it does not fit. A certificate that is not
    trusted is final.
    """
    failure: HttpError | None = None
    try:
        origin = split_url(url)
        reply, problem = _try(
            _Request(method, origin, tuple((headers or {}).items()), body), options, deadline, retry
        )
        failure = None if problem is None else to_http_error(problem, str(origin))
    except HttpError as error:
        failure = error.with_traceback(None)
    if failure is None:
        return reply
    # Nor may a traceback with locals show them.
    origin = reply = None  # type: ignore[assignment] # nobody reads them any more
    del url, headers, body
    raise failure


class _Request(Value):
    """What all attempts send."""

    method: str
    origin: "Origin"
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)


def _try(
    request: _Request, options: HttpOptions, deadline: "Deadline", retry: Retry
) -> "tuple[Reply, NetworkError | None]":
    """Make attempts as long as another one may help."""
    # Nobody vouches for a certificate that is known by its thumbprint, which is compared before anything is sent.
    is_insecure = options.is_insecure or options.thumbprint is not None
    tls = Tls(Trust(options.ca_file, options.ca_data, is_insecure))
    number = 0
    while True:
        number += 1
        reply, failure = _attempt(request, options, tls, deadline)
        if isinstance(failure, UntrustedError) and tls.widen():
            reply, failure = _attempt(request, options, tls, deadline)
        if failure is None and not retry.is_transient(reply):
            return reply, None
        wait = retry.delay(number) if failure is not None else _retry_after(reply, retry.delay(number))
        is_final = failure is not None and failure.is_final
        if number >= retry.attempts or wait >= deadline.seconds_left or is_final:
            return reply, failure
        sleep(wait)


def _attempt(
    request: _Request, options: HttpOptions, tls: Tls, deadline: "Deadline"
) -> "tuple[Reply, NetworkError | None]":
    """One request and its answer; or an empty answer, and why there is none."""
    url = str(request.origin)
    try:
        with _client(options, tls, deadline).request(
            request.origin, request.method, request.headers, request.body
        ) as answer:
            received = answer.read(options.most_bytes)
            return Reply(url, answer.head.status, answer.head.headers, received), None
    except NetworkError as error:
        return Reply(url, 0, (), b""), error.with_traceback(None)


def _client(options: HttpOptions, tls: Tls, deadline: "Deadline") -> "Client":
    from keyferry._net.client import Client
    from keyferry._net.deadline import WaitLimits
    from keyferry._net.proxy import choose_proxy

    return Client(
        tls.context,
        WaitLimits(options.connect_seconds, options.attempt_seconds),
        deadline,
        # The thumbprint is the server's, and says nothing about a proxy.
        proxy_tls=(lambda: default_context(options.ca_file, options.ca_data)) if options.thumbprint else None,
        proxy=choose_proxy if options.use_proxy and not options.address else lambda _: None,
        address=options.address,
        judge=None if options.thumbprint is None else options.thumbprint.check,
    )


def _retry_after(reply: Reply, delay: float) -> float:
    """The wait a server asks for, in seconds; one given as a date is not understood, and ours is used."""
    asked = next(iter(reply.values("retry-after")), "").strip()
    if not asked.isascii() or not asked.isdigit():
        return delay
    return max(delay, float(asked)) if len(asked) < _TOO_MANY_DIGITS else float("inf")
