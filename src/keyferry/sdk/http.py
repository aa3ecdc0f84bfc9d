"""HTTP for plugins, on the standard library's sockets: deadlines, bounded retries, proxies, verified TLS.

A request never follows a redirect, and a credential in it goes to the host it was meant for and no other.
"""

import os
from time import sleep

from keyferry._http import Head, Incoming, MalformedAnswerError, encode_request_head
from keyferry._values import Value, field
from keyferry.errors import DocumentError, HttpError
from keyferry.sdk.proxy import Origin, authorization, choose_proxy, split_url

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from keyferry.sdk.connection import Connection
    from keyferry.sdk.deadline import Deadline

__all__ = ["ONCE", "Reply", "Retry", "Route", "fetch"]

_THROTTLED = 429
_TRANSIENT = frozenset((408, _THROTTLED, 500, 502, 503, 504))
_JITTER_STEPS = 65536


class Reply(Value):
    """An answer read to its end; *url* is without query and user info."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        """Tell whether the status is one of success."""
        return 200 <= self.status < 300  # noqa: PLR2004

    def values(self, name: str) -> list[str]:
        """All values of a header, whose name is given in lower case."""
        return [value for found, value in self.headers if found == name]

    def json(self) -> dict[str, object]:
        """The body as a JSON object; raises HttpError, which quotes none of it."""
        from keyferry._json import loads

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
    so. *address* is dialled in place of the host's own. *attempt_seconds* bounds one attempt from name look-up to
    the last byte of the answer.
    """

    use_proxy: bool = True
    ca_file: str = ""
    ca_data: str = ""
    is_insecure: bool = False
    address: str = ""
    connect_seconds: float = 5.0
    attempt_seconds: float = 15.0
    most_bytes: int = 10 * 1024 * 1024


def fetch(  # noqa: PLR0913 - the parts of a request
    method: str,
    url: str,
    *,
    deadline: "Deadline",
    headers: "Mapping[str, str] | None" = None,
    body: bytes = b"",
    retry: Retry = Retry(),  # noqa: B008 - frozen
    route: Route = Route(),  # noqa: B008 - frozen
) -> Reply:
    """Send a request and read the whole answer, whatever its status; raises HttpError where there is none.

    Failures of the connection and transient statuses are tried again, as *retry* says, as long as *deadline*
    leaves time; a Retry-After is obeyed, and ends the attempts if it does not fit. A certificate that is not
    trusted is final.
    """
    origin = split_url(url)
    proxy = choose_proxy(origin) if route.use_proxy else None
    number = 0
    while True:
        number += 1
        failure: HttpError | None = None
        reply: Reply | None = None
        try:
            reply = _attempt(origin, proxy, method, dict(headers or {}), body, route, deadline)
            if not retry.is_transient(reply):
                return reply
        except HttpError as error:
            failure = error
        wait = retry.delay(number) if reply is None else _retry_after(reply, retry.delay(number))
        is_last = number >= retry.attempts or wait >= deadline.seconds_left
        if is_last or (failure is not None and "certificate" in failure.problem):
            break
        sleep(wait)
    if failure is not None:
        raise failure
    assert reply is not None  # noqa: S101 - for the type checker: one of the two is there
    return reply


def _attempt(  # noqa: PLR0913, PLR0917 - the parts of a request
    origin: Origin,
    proxy: Origin | None,
    method: str,
    headers: dict[str, str],
    body: bytes,
    route: Route,
    deadline: "Deadline",
) -> Reply:
    from keyferry.sdk.connection import connect, describe

    connection: Connection | None = None
    try:
        within = deadline.within(route.attempt_seconds)
        connection = connect(
            origin,
            proxy=proxy,
            tls=lambda: _context(route),
            deadline=within,
            connect_seconds=route.connect_seconds,
            address=route.address,
        )
        connection.send(_request(origin, proxy, method, headers, body))
        head, received = _receive(connection, method, route.most_bytes)
        return Reply(str(origin), head.status, head.headers, received)
    except HttpError:
        raise
    except (OSError, ValueError, MalformedAnswerError) as error:
        via = "" if proxy is None else f" (through the proxy {proxy})"
        problem, is_timeout = describe(error) + via, isinstance(error, TimeoutError)
    finally:
        if connection is not None:
            connection.close()
    # Raised out here on purpose: the frames of what was caught hold headers and bodies.
    raise HttpError(str(origin), problem, _advice(problem), is_timeout)


def _request(
    origin: Origin, proxy: Origin | None, method: str, headers: dict[str, str], body: bytes
) -> bytes:
    named = {name.lower() for name in headers}
    lines = [("Host", origin.authority), ("Connection", "close"), ("Accept-Encoding", "identity")]
    if "user-agent" not in named:
        from keyferry import __version__

        lines.append(("User-Agent", f"keyferry/{__version__}"))
    lines += headers.items()
    if body or method in ("POST", "PUT"):
        lines.append(("Content-Length", str(len(body))))
    target = origin.target
    if proxy is not None and origin.scheme == "http":
        target = f"http://{origin.authority}{target}"
        lines += authorization(proxy)
    return encode_request_head(method, target, lines) + body


def _receive(connection: "Connection", method: str, most_bytes: int) -> tuple[Head, bytes]:
    incoming = Incoming(connection.receive)
    head = incoming.read_head()
    received = bytearray()
    for piece in incoming.read_body(head, method):
        received += piece
        if len(received) > most_bytes:
            raise MalformedAnswerError(f"the answer is longer than {most_bytes} bytes")
    return head, bytes(received)


def _retry_after(reply: Reply, delay: float) -> float:
    """The wait a server asks for, in seconds; one given as a date is not understood, and ours is used."""
    asked = next(iter(reply.values("retry-after")), "").strip()
    return max(delay, float(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 6 else delay  # noqa: PLR2004


def _advice(problem: str) -> str:
    if "certificate" in problem:
        return "if a proxy or a private authority stands in between, name its bundle in SSL_CERT_FILE"
    return ""


def _context(route: Route) -> "ssl.SSLContext":
    import ssl

    try:
        context = ssl.create_default_context(cafile=route.ca_file or None, cadata=route.ca_data or None)
    except FileNotFoundError:
        problem = "does not exist"
    except (OSError, ValueError):
        problem = "cannot be read as a bundle of certificates"
    else:
        if route.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context
    raise HttpError(f"the CA bundle {route.ca_file!r}" if route.ca_file else "the CA bundle given", problem)
