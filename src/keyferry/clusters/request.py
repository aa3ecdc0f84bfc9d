"""Send one request to a cluster, with a streamed response and time limits, and to no other server."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from keyferry import __version__
from keyferry._core.log import log_debug
from keyferry._core.secrets import printable
from keyferry._core.values import replace
from keyferry._net.client import Client, HttpResponse
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
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_MAX_REASON = 100
# Delimiters of a path or query, and '%' for characters that are already escaped.
_SAFE = "/?&=%:;,@!$'()*+[]~"


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
) -> ClusterResponse:
    """Send a request for *path*, relative to the server's URL, and return the response.

    *timeout_seconds* limits the wait for the response headers, and each wait for a part of the body unless the
    response *is_endless*, such as a watch. After a 401 the credential is renewed and the request is sent once
    more. Redirects are followed only on the same server, so that no other server receives the credential.
    Raises ClusterAuthError.
    """
    last: list[ClusterResponse] = []
    idle_seconds = NO_LIMIT if is_endless else timeout_seconds

    def send(grant: Grant) -> ClusterResponse:
        for reply in last:
            reply.close()
        last[:] = [_send(session, grant, path, method, body, Deadline(timeout_seconds), idle_seconds)]
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
) -> ClusterResponse:
    """Send a request and follow redirects; all of them share the deadline."""
    url, origin = _find_server(session.server)
    target = url.path.rstrip("/") + encode_percent(path, _SAFE)
    # Made before connecting, so that an invalid key or authority is reported without a server.
    tls = session.ssl_context(grant=grant) if url.scheme == "https" else None
    for left in reversed(range(_MAX_REDIRECTS)):
        client = _client(session, tls, deadline.seconds_left, idle_seconds)
        place = replace(origin, target=target)
        reply = ClusterResponse(client.request(place, method, _headers(url, grant, body), body))
        log_debug("clusters", "%s %s: status %d", method, place.host, reply.status)
        onward = _onward(url, target, reply) if method == "GET" else ""
        if not onward or not left:
            break
        reply.close()
        target = onward
    return reply


def _client(session: ClusterAccess, tls: SSLContext | None, seconds: float, idle_seconds: float) -> Client:
    """Return a client for one request, so that a connection is never used with two credentials."""
    configured = session.config.proxy_url
    return Client(
        lambda: tls or default_context(),
        WaitLimits(connect_seconds=seconds, answer_seconds=seconds, idle_seconds=idle_seconds),
        Deadline(NO_LIMIT),
        # The kubeconfig's certificate-authority and tls-server-name do not apply to the proxy.
        proxy_tls=default_context,
        proxy=(lambda _: parse_proxy(configured, "proxy-url")) if configured else choose_proxy,
        translate_error=lambda _, error: _failure(session.server, error),
    )


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
