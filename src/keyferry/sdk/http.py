"""HTTP for plugins, on the standard library's sockets: deadlines, bounded retries, proxies, verified TLS.

A request never follows a redirect, and a credential in it goes to the host it was meant for and no other.
"""

import os
from time import sleep

from keyferry._core.values import Value, field
from keyferry._net.messages import Head, Incoming, MalformedAnswerError, encode_request_head
from keyferry._net.proxy import Origin, authorization, choose_proxy, split_url
from keyferry._net.trust import Tls, Trust, advise_on
from keyferry.errors import DocumentError, HttpError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry._net.connection import Connection
    from keyferry._net.deadline import Deadline

__all__ = ["ONCE", "Reply", "Retry", "Route", "fetch"]

_THROTTLED = 429
_TRANSIENT = frozenset((408, _THROTTLED, 500, 502, 503, 504))
_JITTER_STEPS = 65536
_TOO_MANY_DIGITS = 12
# How the two problems begin that another attempt does not cure.
_UNTRUSTED, _TOO_LONG = "its certificate is not trusted", "the answer is longer"
_PRIVATE_AUTHORITY = "if a proxy or a private authority stands in between, name its bundle in SSL_CERT_FILE"


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


class Route(Value):
    """How to get to a server: through the environment's proxy or not, which authorities to trust, how long to wait.

    *ca_file* is a bundle to trust in place of the system's, *ca_data* such a bundle as PEM text; SSL_CERT_FILE and
    SSL_CERT_DIR are honoured without them. One that *is_insecure* trusts any certificate: only where the user says
    so. *address* is dialled in place of the host's own, and never through a proxy. *attempt_seconds* bounds one
    attempt from name look-up to the last byte of the answer.
    """

    use_proxy: bool = True
    ca_file: str = ""
    ca_data: str = ""
    is_insecure: bool = False
    address: str = ""
    connect_seconds: float = 5.0
    attempt_seconds: float = 15.0
    most_bytes: int = 10 * 1024 * 1024


def fetch(
    method: str,
    url: str,
    *,
    deadline: "Deadline",
    headers: "Mapping[str, str] | None" = None,
    body: bytes = b"",
    retry: Retry = Retry(),
    route: Route = Route(),
) -> Reply:
    """Send a request and read the whole answer, whatever its status; raises HttpError where there is none.

    Failures of the connection and transient statuses are tried again, as *retry* says, as long as *deadline*
    leaves time; a Retry-After is obeyed, and ends the attempts if it does not fit. A certificate that is not
    trusted is final.
    """
    failure: HttpError | None
    try:
        way = _choose_way(url, route)
        reply, failure = _try(way, method, _request(way, method, headers or {}, body), deadline, retry)
    except HttpError as error:
        failure = error.with_traceback(None)
    if failure is None:
        return reply
    # Nor may a traceback with locals show them.
    way = reply = None  # type: ignore[assignment] # nobody reads them any more
    del url, headers, body
    raise failure


def _choose_way(url: str, route: Route) -> "_Way":
    origin = split_url(url)
    proxy = choose_proxy(origin) if route.use_proxy and not route.address else None
    return _Way(origin, proxy, route, Tls(Trust(route.ca_file, route.ca_data, route.is_insecure)))


def _try(
    way: "_Way", method: str, data: bytes, deadline: "Deadline", retry: Retry
) -> "tuple[Reply, HttpError | None]":
    """Make attempts as long as another one may help."""
    number = 0
    while True:
        number += 1
        reply, failure = _attempt(way, method, data, deadline)
        if _is_untrusted(failure) and way.tls.widen():
            reply, failure = _attempt(way, method, data, deadline)
        if failure is None and not retry.is_transient(reply):
            return reply, None
        wait = retry.delay(number) if failure is not None else _retry_after(reply, retry.delay(number))
        if number >= retry.attempts or wait >= deadline.seconds_left or _is_final(failure):
            return reply, failure
        sleep(wait)


class _Way(Value):
    """What all attempts share."""

    origin: Origin
    proxy: Origin | None
    route: Route
    tls: Tls


def _attempt(way: _Way, method: str, data: bytes, deadline: "Deadline") -> "tuple[Reply, HttpError | None]":
    """One request and its answer; or an empty answer, and why there is none."""
    from keyferry._net.connection import connect, describe

    nothing = Reply(str(way.origin), 0, (), b"")
    connection: Connection | None = None
    try:
        connection = connect(
            way.origin,
            proxy=way.proxy,
            tls=way.tls.context,
            deadline=deadline.within(way.route.attempt_seconds),
            connect_seconds=way.route.connect_seconds,
            address=way.route.address,
        )
        connection.send(data)
        head, received = _receive(connection, method, way.route.most_bytes)
        return Reply(str(way.origin), head.status, head.headers, received), None
    except HttpError as error:
        return nothing, error.with_traceback(None)
    except (OSError, ValueError, MalformedAnswerError) as error:
        # A new error, and not raised in here: the frames of what was caught hold headers and bodies.
        problem, is_timeout = describe(error), isinstance(error, TimeoutError)
        hint = advise_on(error, _PRIVATE_AUTHORITY)
    finally:
        if connection is not None:
            connection.close()
    via = "" if way.proxy is None else f" (through the proxy {way.proxy})"
    return nothing, HttpError(str(way.origin), problem + via, hint, is_timeout)


def _is_untrusted(failure: HttpError | None) -> bool:
    return failure is not None and failure.problem.startswith(_UNTRUSTED)


def _is_final(failure: HttpError | None) -> bool:
    """Tell whether another attempt would end the same way: a certificate is not trusted, or there is no end to read."""
    return failure is not None and failure.problem.startswith((_UNTRUSTED, _TOO_LONG))


def _request(way: _Way, method: str, headers: "Mapping[str, str]", body: bytes) -> bytes:
    """The request as bytes; what says how long it is, and that it is the only one, is not the caller's to set."""
    from keyferry import __version__

    fields = {
        "host": ("Host", way.origin.authority),
        "accept-encoding": ("Accept-Encoding", "identity"),
        "user-agent": ("User-Agent", f"keyferry/{__version__}"),
        **{name.lower(): (name, value) for name, value in headers.items()},
        "connection": ("Connection", "close"),
    }
    fields.pop("content-length", None)
    fields.pop("transfer-encoding", None)
    if body or method in ("POST", "PUT", "PATCH"):
        fields["content-length"] = ("Content-Length", str(len(body)))
    target, lines = way.origin.target, list(fields.values())
    if way.proxy is not None and way.origin.scheme == "http":
        target = f"http://{way.origin.authority}{target}"
        lines += authorization(way.proxy)
    try:
        return encode_request_head(method, target, lines) + body
    except ValueError:
        pass
    # Raised out here on purpose: what was caught may hold the header.
    raise HttpError(
        str(way.origin), "a header or the address of the request has characters that HTTP cannot carry"
    )


def _receive(connection: "Connection", method: str, most_bytes: int) -> tuple[Head, bytes]:
    incoming = Incoming(connection.receive)
    head = incoming.read_head()
    received = bytearray()
    for piece in incoming.read_body(head, method):
        received += piece
        if len(received) > most_bytes:
            raise MalformedAnswerError(f"{_TOO_LONG} than {most_bytes} bytes")
    return head, bytes(received)


def _retry_after(reply: Reply, delay: float) -> float:
    """The wait a server asks for, in seconds; one given as a date is not understood, and ours is used."""
    asked = next(iter(reply.values("retry-after")), "").strip()
    if not asked.isascii() or not asked.isdigit():
        return delay
    return max(delay, float(asked)) if len(asked) < _TOO_MANY_DIGITS else float("inf")
