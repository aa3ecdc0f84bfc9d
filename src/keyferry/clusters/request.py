"""Send one request to a cluster, with a streamed response and time limits, and to no other server."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from keyferry import __version__
from keyferry._core.log import log_debug
from keyferry._core.secrets import printable
from keyferry._core.values import Value, replace
from keyferry._net.client import Client, HttpResponse, Tunnel
from keyferry._net.deadline import NO_LIMIT, Deadline, WaitLimits
from keyferry._net.errors import (
    NetworkError,
    NotResolvedError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UrlError,
    WrongNameError,
)
from keyferry._net.forms import encode_percent
from keyferry._net.proxy import Origin, choose_proxy, make_origin, parse_proxy
from keyferry._net.trust import default_context
from keyferry._net.url import Url, join_url, parse_url
from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.errors import ClusterAuthError, EnvironmentProblem, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ssl import SSLContext
    from typing import Self

UNAUTHORIZED = 401
_SWITCHED = 101
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_MAX_REASON = 100
# The limit of a request without one: the system's waits do not take an infinite number.
_YEAR_SECONDS = 365 * 86_400.0
# Delimiters of a path or query, and '%' for characters that are already escaped.
_SAFE = "/?&=%:;,@!$'()*+[]~"


class Upgrade(Value):
    """The protocol that the server is asked to switch to, and the headers that this protocol needs."""

    protocol: str
    headers: tuple[tuple[str, str], ...] = ()


class ClusterResponse:
    """A server's response: its status, and a body that is read on demand."""

    def __init__(self, answer: HttpResponse) -> None:
        self.status = answer.head.status
        self.reason = printable(answer.head.reason)[:_MAX_REASON]
        self.content_type = answer.head.value("content-type")
        self.location = answer.head.value("location")
        self._answer = answer

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self) -> Iterator[bytes]:
        """Return the parts of the body as they arrive. Raises ClusterAuthError if the body is incomplete."""
        # A stream, since a log that is followed may send chunks of one byte.
        return self._answer.pieces(is_timed=False, is_stream=True)

    def read(self, limit: int = 1 << 24) -> bytes:
        """Return the body, at most *limit* bytes of it."""
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if len(body) >= limit:
                break
        return bytes(body[:limit])

    @property
    def is_switched(self) -> bool:
        """Whether the server switched to the protocol that was asked for."""
        return self.status == _SWITCHED

    def header(self, name: str) -> str:
        """Return the first value of a header, whose name is given in lower case."""
        return self._answer.head.value(name)

    def switch(self) -> Tunnel:
        """Return the connection for the other protocol; it ends when the response is closed."""
        return self._answer.switch()

    def close(self) -> None:
        """Close the connection."""
        self._answer.close()


def request(
    session: ClusterAccess,
    path: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    timeout_seconds: float = 60.0,
    is_endless: bool = False,
    upgrade: Upgrade | None = None,
) -> ClusterResponse:
    """Send a request for *path*, relative to the server's URL, and return the response.

    *timeout_seconds* limits the wait for the response headers, and each wait for a part of the body unless the
    response *is_endless*, such as a watch. If the session has a time limit for requests, that one applies instead, to
    the whole exchange, as in kubectl. After a 401 the credential is renewed and the request is sent once
    more. Redirects are followed only on the same server, so that no other server receives the credential. With
    *upgrade*, the server is asked to switch to another protocol, whose time the caller limits.
    Raises ClusterAuthError.
    """
    last: list[ClusterResponse] = []
    given = session.config.request_timeout_seconds
    seconds = timeout_seconds if given is None else min(given or _YEAR_SECONDS, _YEAR_SECONDS)
    idle_seconds = NO_LIMIT if is_endless else seconds

    def send(grant: Grant) -> ClusterResponse:
        for reply in last:
            reply.close()
        deadline = Deadline(seconds)
        last[:] = [_send(session, grant, path, method, body, deadline, idle_seconds, upgrade)]
        return last[0]

    return session.perform(send, lambda reply: reply.status == UNAUTHORIZED)


# No server was reached; after any other error one was, and was refused.
_UNREACHED = (NotResolvedError, RefusedError, UnreachableError)


def _find_server(server: str) -> tuple[Url, Origin]:
    """Return the URL and origin of a server; without a scheme it is an http server, as in client-go."""
    if server in ("http://", "https://"):
        message = f"the server {server!r} has no host, expected a URL such as 'https://HOST:6443'"
        raise ClusterAuthError(server, message, "", EnvironmentProblem(message))
    url = parse_url(server)
    if url is None or not url.host:
        url = parse_url(f"http://{server}")
    message = "the server is not an http or https URL"
    if url is not None and url.scheme in ("http", "https"):
        try:
            return url, make_origin(url.scheme, url.host)
        except UrlError as error:
            message = f"the server {error.problem}"
    raise ClusterAuthError(server, message, "", EnvironmentProblem(message))


def _send(  # noqa: PLR0917 - each one is a part of the request
    session: ClusterAccess,
    grant: Grant,
    path: str,
    method: str,
    body: bytes,
    deadline: Deadline,
    idle_seconds: float,
    upgrade: Upgrade | None,
) -> ClusterResponse:
    """Send a request and follow redirects; all of them share the deadline."""
    url, origin = _find_server(session.server)
    target = url.path.rstrip("/") + encode_percent(path, _SAFE)
    # Made before connecting, so that an invalid key or authority is reported without a server.
    tls = session.ssl_context(grant=grant) if url.scheme == "https" else None
    for left in reversed(range(_MAX_REDIRECTS)):
        client = _client(session, tls, deadline, idle_seconds)
        place = replace(origin, target=target)
        headers = [*_headers(url, grant, body), *(() if upgrade is None else upgrade.headers)]
        protocol = "" if upgrade is None else upgrade.protocol
        reply = ClusterResponse(client.request(place, method, headers, body, upgrade=protocol))
        log_debug("clusters", "%s %s: status %d", method, place.host, reply.status)
        onward = _onward(url, target, reply) if method == "GET" else ""
        if not onward or not left:
            break
        reply.close()
        target = onward
    return reply


def _client(
    session: ClusterAccess, tls: SSLContext | None, deadline: Deadline, idle_seconds: float
) -> Client:
    """Return a client for one request, so that a connection is never used with two credentials."""
    seconds = deadline.seconds_left
    is_whole = session.config.request_timeout_seconds is not None
    return Client(
        lambda: tls or default_context(),
        WaitLimits(connect_seconds=seconds, answer_seconds=seconds, idle_seconds=idle_seconds),
        deadline if is_whole else Deadline(NO_LIMIT),
        # The kubeconfig's certificate-authority and tls-server-name do not apply to the proxy.
        proxy_tls=default_context,
        proxy=lambda origin: _choose_proxy(session, origin),
        translate_error=lambda _, error: _failure(session.server, error),
    )


def _choose_proxy(session: ClusterAccess, origin: Origin) -> Origin | None:
    config = session.config
    if config.proxy_url:
        return parse_proxy(config.proxy_url, "proxy-url")
    return choose_proxy(origin) if config.uses_environment_proxy else None


def _headers(url: Url, grant: Grant, body: bytes) -> list[tuple[str, str]]:
    content_type = [("Content-Type", "application/json")] if body else []
    return [
        ("Host", url.host),
        ("Accept", "application/json, */*"),
        ("User-Agent", f"keyferry/{__version__} ({sys.platform})"),
        *content_type,
        *grant.headers,
    ]


def _onward(url: Url, target: str, reply: ClusterResponse) -> str:
    """Return the target of a redirect to the same server; empty for any other response."""
    if reply.status not in _REDIRECTS or not reply.location:
        return ""
    origin = f"{url.scheme}://{url.host}"
    joined = join_url(origin + target, reply.location)
    inside = joined.startswith(f"{origin}/")
    return encode_percent(joined.removeprefix(origin).partition("#")[0], _SAFE) if inside else ""


def _failure(server: str, error: NetworkError) -> ClusterAuthError:
    """Return the error for a failed request; it contains no header and no body."""
    if isinstance(error, TimedOutError):
        return ClusterAuthError(server, str(error), "context deadline exceeded", kind=Kind.TIMEOUT)
    more = f"; {error.hint}" if error.hint else ""
    if isinstance(error, WrongNameError):
        more += ", or set tls-server-name to one of its names"
    kind = Kind.UNREACHABLE if isinstance(error, _UNREACHED) else Kind.REFUSED
    return ClusterAuthError(server, f"{error}{more}", kind=kind)
