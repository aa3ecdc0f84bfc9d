"""One request to a cluster over the standard library alone: streamed, bounded in time, never sent elsewhere."""

import sys
from collections.abc import Iterator

from keyferry import __version__
from keyferry._core.secrets import printable
from keyferry._core.values import replace
from keyferry._net.client import Client, HttpResponse
from keyferry._net.deadline import NO_LIMIT, Deadline, WaitLimits
from keyferry._net.errors import NetworkError, TimedOutError, UrlError, WrongNameError
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

__all__ = ["ClusterResponse", "request"]

UNAUTHORIZED = 401
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_LONGEST_REASON = 100
# Everything that means something in a path or query, and what is escaped already.
_SAFE = "/?&=%:;,@!$'()*+[]~"


class ClusterResponse:
    """What a server answered: a status, and a body that comes as it is read."""

    def __init__(self, answer: HttpResponse) -> None:
        self.status = answer.head.status
        self.reason = printable(answer.head.reason)[:_LONGEST_REASON]
        self.content_type = answer.head.value("content-type")
        self.location = answer.head.value("location")
        self._answer = answer

    @property
    def is_success(self) -> bool:
        """Tell whether the status is one of success."""
        return 200 <= self.status < 300

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self) -> Iterator[bytes]:
        """The body, piece by piece as it arrives; raises ClusterAuthError if it breaks off."""
        # A log that is followed may have lines of one byte.
        return self._answer.pieces(is_timed=False, is_stream=True)

    def read(self, limit: int = 1 << 24) -> bytes:
        """The whole body, or its first *limit* bytes."""
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if len(body) >= limit:
                break
        return bytes(body[:limit])

    def close(self) -> None:
        """End the connection."""
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
    """Ask the session's server for *path*, which counts from the server's URL; raises ClusterAuthError.

    There are *timeout_seconds* for the head of the answer, and as many for each silence in its body unless it
    *is_endless*, as a watch is. On a 401 the credential is renewed and the request sent once more.
    Redirects are followed on the same server only; a credential never goes to another.
    """
    last: list[ClusterResponse] = []
    idle_seconds = NO_LIMIT if is_endless else timeout_seconds

    def send(grant: Grant) -> ClusterResponse:
        for reply in last:
            reply.close()
        last[:] = [_send(session, grant, path, method, body, Deadline(timeout_seconds), idle_seconds)]
        return last[0]

    return session.perform(send, lambda reply: reply.status == UNAUTHORIZED)


def _find_server(server: str) -> tuple[Url, Origin]:
    """Where a server is; one without a scheme is reached by plain http, as in client-go."""
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


def _send(  # noqa: PLR0917 - the parts of a request
    session: ClusterAccess,
    grant: Grant,
    path: str,
    method: str,
    body: bytes,
    deadline: Deadline,
    idle_seconds: float,
) -> ClusterResponse:
    """Send a request, and follow redirects; the head of the last answer is there before the deadline."""
    url, origin = _find_server(session.server)
    target = url.path.rstrip("/") + encode_percent(path, _SAFE)
    # First of all: what is wrong with a key or an authority needs no server to be told.
    tls = session.ssl_context(grant=grant) if url.scheme == "https" else None
    for _ in range(_MOST_REDIRECTS):
        client = _client(session, tls, deadline.seconds_left, idle_seconds)
        place = replace(origin, target=target)
        reply = ClusterResponse(client.request(place, method, _headers(url, grant, body), body))
        onward = _onward(url, target, reply) if method == "GET" else ""
        if not onward:
            break
        reply.close()
        target = onward
    return reply


def _client(session: ClusterAccess, tls: "SSLContext | None", seconds: float, idle_seconds: float) -> Client:
    """A client for one request: a connection is made under one credential and used for no other."""
    configured = session.config.proxy_url
    return Client(
        lambda: tls or default_context(),
        WaitLimits(seconds, seconds, idle_seconds),
        Deadline(NO_LIMIT),
        # The kubeconfig's authority is not the proxy's, nor is tls-server-name.
        proxy_tls=default_context,
        proxy=(lambda _: parse_proxy(configured, "proxy-url")) if configured else choose_proxy,
        tell=lambda _, error: _failure(session.server, error),
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
    """Where a redirect leads, if it stays on this server."""
    if reply.status not in _REDIRECTS or not reply.location:
        return ""

    origin = f"{url.scheme}://{url.host}"
    joined = join_url(origin + target, reply.location)
    inside = joined.startswith(f"{origin}/")
    return encode_percent(joined.removeprefix(origin).partition("#")[0], _SAFE) if inside else ""


def _failure(server: str, error: NetworkError) -> ClusterAuthError:
    """What went wrong between us and the server; no header and no body is quoted."""
    if isinstance(error, TimedOutError):
        return ClusterAuthError(server, str(error), "context deadline exceeded", kind=Kind.TIMEOUT)
    more = f"; {error.hint}" if error.hint else ""
    if isinstance(error, WrongNameError):
        more += ", or set tls-server-name to one that it has"
    return ClusterAuthError(server, f"{error}{more}")
