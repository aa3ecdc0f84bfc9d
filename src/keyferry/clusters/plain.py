"""One request to a cluster over the standard library alone: streamed, bounded in time, never sent elsewhere."""

import sys
from collections.abc import Iterator
from ssl import SSLCertVerificationError, SSLContext, SSLError
from time import monotonic
from urllib.parse import quote, urljoin

from keyferry import __version__
from keyferry._core.gotext import go_strerror
from keyferry._core.secrets import printable
from keyferry._net.messages import Head, Incoming, MalformedAnswerError, encode_request_head
from keyferry._net.trust import advise_on, why_untrusted
from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.clusters.channel import Channel, Refused, choose_proxy, open_channel, proxy_authorization
from keyferry.clusters.url import Url, parse_url
from keyferry.errors import ClusterAuthError, EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["Reply", "request"]

UNAUTHORIZED = 401
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_CHUNK = 1 << 16
_LONGEST_REASON = 100
# Everything that means something in a path or query, and what is escaped already.
_SAFE = "/?&=%:;,@!$'()*+[]~"


class Reply:
    """What a server answered: a status, and a body that comes as it is read."""

    def __init__(self, server: str, head: Head, body: Iterator[bytes], channel: Channel) -> None:
        self.status = head.status
        self.reason = printable(head.reason)[:_LONGEST_REASON]
        self.content_type = head.value("content-type")
        self.location = head.value("location")
        self._server = server
        self._body = body
        self._channel = channel

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
        while chunk := self._read():
            yield chunk

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
        self._channel.shut()

    def _read(self) -> bytes:
        try:
            return next(self._body, b"")
        except (OSError, MalformedAnswerError) as error:
            failure = _failure(self._server, error)
        raise failure


def request(
    session: ClusterAccess,
    path: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    timeout_seconds: float = 60.0,
    is_endless: bool = False,
) -> Reply:
    """Ask the session's server for *path*, which counts from the server's URL; raises ClusterAuthError.

    There are *timeout_seconds* for the head of the answer, and as many for each silence in its body unless it
    *is_endless*, as a watch is. On a 401 the credential is renewed and the request sent once more.
    Redirects are followed on the same server only; a credential never goes to another.
    """
    last: list[Reply] = []

    def send(grant: Grant) -> Reply:
        for reply in last:
            reply.close()
        last[:] = [_send(session, grant, _target(session, path), method, body, timeout_seconds)]
        last[0]._channel.await_each(None if is_endless else timeout_seconds)  # noqa: SLF001 - a part of this module
        return last[0]

    return session.perform(send, lambda reply: reply.status == UNAUTHORIZED)


def server_url(server: str) -> Url:
    """The parts of a server's URL; one without a scheme is reached by plain http, as in client-go."""
    url = parse_url(server)
    if url is None or not url.host:
        url = parse_url(f"http://{server}")
    if url is None or url.scheme not in ("http", "https"):
        message = "the server is not an http or https URL"
        raise ClusterAuthError(server, message, "", EnvironmentProblem(message))
    return url


def _target(session: ClusterAccess, path: str) -> str:
    base = server_url(session.server).path.rstrip("/")
    return base + quote(path.encode("utf-8", "surrogateescape"), safe=_SAFE)


def _send(  # noqa: PLR0917 - the parts of a request
    session: ClusterAccess, grant: Grant, target: str, method: str, body: bytes, timeout_seconds: float
) -> Reply:
    deadline = monotonic() + timeout_seconds
    for _ in range(_MOST_REDIRECTS):
        reply = _send_once(session, grant, target, method, body, deadline)
        onward = _onward(session, target, reply) if method == "GET" else ""
        if not onward:
            break
        reply.close()
        target = onward
    return reply


def _onward(session: ClusterAccess, target: str, reply: Reply) -> str:
    """Where a redirect leads, if it stays on this server."""
    if reply.status not in _REDIRECTS or not reply.location:
        return ""
    url = server_url(session.server)
    origin = f"{url.scheme}://{url.host}"
    joined = urljoin(origin + target, reply.location)
    inside = joined.startswith(f"{origin}/")
    return quote(joined.removeprefix(origin).partition("#")[0], safe=_SAFE) if inside else ""


def _send_once(  # noqa: PLR0917 - the parts of a request
    session: ClusterAccess, grant: Grant, target: str, method: str, body: bytes, deadline: float
) -> Reply:
    channel: Channel | None = None

    def tls() -> SSLContext:
        return session.ssl_context(grant=grant)

    try:
        url = server_url(session.server)
        proxy = choose_proxy(url, session.config.proxy_url)
        channel = open_channel(url, proxy, tls, deadline)
        extra = {}
        if proxy is not None and url.scheme == "http":
            target, extra = f"http://{url.host}{target}", proxy_authorization(proxy)
        channel.sendall(_encode(url, target, method, body, (*grant.headers, *extra.items())))
        incoming = Incoming(channel.receive)
        head = incoming.read_head()
        # A log that is followed may have lines of one byte.
        return Reply(session.server, head, incoming.read_body(head, method, is_stream=True), channel)
    except (OSError, MalformedAnswerError, ValueError, Refused) as error:
        if channel is not None:
            channel.shut()
        failure = _failure(session.server, error)
    # Raised out here on purpose: the frames of what was caught hold the headers.
    raise failure


def _encode(url: Url, target: str, method: str, body: bytes, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = [
        ("Host", url.host),
        ("Accept", "application/json, */*"),
        ("Accept-Encoding", "identity"),
        ("User-Agent", f"keyferry/{__version__} ({sys.platform})"),
    ]
    if body:
        lines += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return encode_request_head(method, target, [*lines, *headers]) + body


def _failure(server: str, error: Exception) -> ClusterAuthError:
    """What went wrong between us and the server; no header and no body is quoted."""
    if isinstance(error, TimeoutError):
        failure = ClusterAuthError(server, "no answer in time", "context deadline exceeded")
        # Bare, so that it holds no frame; it is what tells a delay from a refusal.
        failure.__cause__ = TimeoutError()
        return failure
    return ClusterAuthError(server, _words(error))


def _words(error: Exception) -> str:
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, SSLCertVerificationError):
        advice = advise_on(error, "")
        more = f"; {advice}, or set tls-server-name to one that it has" if advice else ""
        return f"its certificate is not accepted: {why_untrusted(error)}{more}"
    if isinstance(error, SSLError):
        return f"TLS failed: {(error.reason or 'unknown').replace('_', ' ').lower()}"
    if isinstance(error, OSError):
        return f"cannot be reached: {go_strerror(error)}"
    return str(error) if isinstance(error, MalformedAnswerError) else "the request cannot be sent"
