"""The HTTP/1.1 client that plugins, registries and ``keyferry kube`` use.

All waits are bounded, connections can be kept, and the caller can reject an address before it is used. Errors contain
no part of a request or a response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from time import monotonic

from keyferry import __version__
from keyferry._net.connection import Connection, connect
from keyferry._net.deadline import Deadline, Timer, WaitLimits
from keyferry._net.errors import ClosedEarlyError, MalformedAnswerError, NetworkError, TooLongError, explain
from keyferry._net.messages import Head, Incoming, encode_request_head
from keyferry._net.proxy import Origin, authorization, choose_proxy
from keyferry.errors import KeyferryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Self

    CheckAddress = Callable[[str], None]
    MakeContext = Callable[[], ssl.SSLContext]
    _Key = tuple[str, str, int, Origin | None]


_MAX_DRAINED = 1 << 16
_WITH_BODY = ("POST", "PUT", "PATCH")
# These define the length of a request and whether the connection stays open, so callers cannot set them.
_OURS = ("connection", "content-length", "transfer-encoding", "upgrade")
_SWITCHED = 101


class _Channel:
    """A connection, the address at its other end, and its time limits."""

    def __init__(
        self, connection: Connection, timer: Timer, origin: Origin, proxy: Origin | None, address: str
    ) -> None:
        self.connection = connection
        self.timer = timer
        self.origin = origin
        self.proxy = proxy
        self.address = address  # empty behind a proxy

    def receive(self) -> bytes:
        """Return the bytes that have arrived, or none at the end."""
        began = monotonic()
        data = self.connection.receive()
        self.timer.note(monotonic() - began, len(data))
        return data


class Client:
    """Sends requests within one deadline, and keeps up to *most_spare* connections per server; thread-safe.

    *tls* returns the context for servers, and *proxy_tls* that for https proxies, by default the same. *proxy* chooses
    the proxy for a server. *address* is used in place of a server's own. *check_certificate* receives a server's
    certificate after the handshake, and raises to reject it. *translate_error* turns a NetworkError and the server into
    the exception that a request raises.
    """

    def __init__(
        self,
        tls: MakeContext,
        limits: WaitLimits,
        deadline: Deadline,
        *,
        proxy_tls: MakeContext | None = None,
        proxy: Callable[[Origin], Origin | None] = choose_proxy,
        address: str = "",
        check_certificate: Callable[[bytes], None] | None = None,
        most_spare: int = 0,
        translate_error: Callable[[Origin, NetworkError], Exception] = lambda _, error: error,
    ) -> None:
        self._tls = tls
        self._proxy_tls = proxy_tls or tls
        self._limits = limits
        self._deadline = deadline
        self._proxy = proxy
        self._address = address
        self._check_certificate = check_certificate
        self._most_spare = most_spare
        self._lock = Lock()
        self._spare: dict[_Key, list[_Channel]] = {}
        self._busy: set[_Channel] = set()
        self._is_interrupted = False
        self.translate_error = translate_error

    def request(
        self,
        origin: Origin,
        method: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        check_address: CheckAddress = lambda _: None,
        upgrade: str = "",
    ) -> HttpResponse:
        """Send a request and read the head of the response.

        *check_address* receives the address before any data is sent there, and raises to reject it. Behind a proxy,
        which resolves names itself, it receives an empty string. *upgrade* is the protocol to switch to, by the
        response's ``switch``.
        """
        proxy: Origin | None = None
        try:
            proxy = self._proxy(origin)
            data = self._encode(origin, proxy, method, headers, body, upgrade)
            channel = self._take(_key(origin, proxy))
            answer = channel and self._try_kept(channel, origin, method, data, check_address)
            return answer or self._exchange(
                self._open(origin, proxy, check_address), origin, method, data, check_address
            )
        except KeyferryError as error:
            failure: Exception = error.with_traceback(None)  # from a function of the caller
        except (OSError, ValueError, NetworkError) as error:
            failure = self.translate_error(origin, explain(error, proxy))
        # Raised outside the except blocks: the frames of the caught error hold headers and body, and a traceback may
        # show locals.
        data = b""
        del headers, body
        raise failure

    def connect(self, origin: Origin) -> None:
        """Connect to a server and keep the connection for a later request; raise NetworkError if that fails."""
        proxy: Origin | None = None
        try:
            proxy = self._proxy(origin)
            channel = self._open(origin, proxy, lambda _: None)
        except (OSError, ValueError, NetworkError) as error:
            failure = explain(error, proxy)
        else:
            self.release(channel, is_reusable=True)
            return
        raise failure

    def release(self, channel: _Channel, *, is_reusable: bool) -> None:
        """Keep a connection for the next request, or close it."""
        with self._lock:
            self._busy.discard(channel)
            spare = self._spare.setdefault(_key(channel.origin, channel.proxy), [])
            if is_reusable and len(spare) < self._most_spare:
                spare.append(channel)
                return
        channel.connection.close()

    def interrupt(self) -> None:
        """Abort all current requests, so that their threads return at once, and refuse later ones."""
        with self._lock:
            self._is_interrupted = True
            for channel in self._busy:
                channel.connection.abort()

    def close(self) -> None:
        """Close the kept connections."""
        with self._lock:
            spares = [channel for channels in self._spare.values() for channel in channels]
            self._spare = {}
        for channel in spares:
            channel.connection.close()

    def _take(self, key: _Key) -> _Channel | None:
        with self._lock:
            spare = self._spare.get(key)
            if not spare or self._is_interrupted:
                return None
            channel = spare.pop()
            self._busy.add(channel)
        channel.timer.begin()
        return channel

    def _try_kept(
        self, channel: _Channel, origin: Origin, method: str, data: bytes, check_address: CheckAddress
    ) -> HttpResponse | None:
        try:
            return self._exchange(channel, origin, method, data, check_address)
        except TimeoutError:
            raise
        except (OSError, ClosedEarlyError, MalformedAnswerError):
            return None  # the server may close a kept connection at any time

    def _open(self, origin: Origin, proxy: Origin | None, check_address: CheckAddress) -> _Channel:
        dialled: list[str] = []

        def note(address: str) -> None:
            check_address(address)
            dialled.append(address)

        if proxy is not None:
            check_address("")
        timer = Timer(self._deadline, self._limits)
        connection = connect(
            origin,
            proxy=proxy,
            tls=self._tls,
            proxy_tls=self._proxy_tls,
            deadline=timer,
            connect_seconds=self._limits.connect_seconds,
            address=self._address,
            check_address=note if proxy is None else None,
            check_certificate=self._check_certificate,
        )
        channel = _Channel(connection, timer, origin, proxy, dialled[-1] if dialled else "")
        with self._lock:
            self._busy.add(channel)
            is_late = self._is_interrupted
        if is_late:  # the interrupt came while it was opened
            self.release(channel, is_reusable=False)
            raise ClosedEarlyError("the request was interrupted")
        return channel

    def _exchange(
        self, channel: _Channel, origin: Origin, method: str, data: bytes, check_address: CheckAddress
    ) -> HttpResponse:
        try:
            check_address(channel.address)
            channel.connection.send(data)
            return HttpResponse(self, channel, origin, method)
        except BaseException:
            self.release(channel, is_reusable=False)
            raise

    def _encode(  # noqa: PLR0917 - each one is a part of the request
        self,
        origin: Origin,
        proxy: Origin | None,
        method: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        upgrade: str,
    ) -> bytes:
        own = [(name, value) for name, value in headers if name.lower() not in _OURS]
        given = {name.lower() for name, _ in own}
        usual = [
            ("Host", origin.authority),
            ("Accept-Encoding", "identity"),
            ("User-Agent", f"keyferry/{__version__}"),
        ]
        lines = [*((name, value) for name, value in usual if name.lower() not in given), *own]
        if upgrade:
            lines += [("Connection", "Upgrade"), ("Upgrade", upgrade)]
        elif not self._most_spare:
            lines.append(("Connection", "close"))
        if body or method in _WITH_BODY:
            lines.append(("Content-Length", str(len(body))))
        target = origin.target
        if proxy is not None and origin.scheme == "http":
            target = f"http://{origin.authority}{target}"
            lines += authorization(proxy)
        return encode_request_head(method, target, lines) + body


def _key(origin: Origin, proxy: Origin | None) -> _Key:
    return origin.scheme, origin.host, origin.port, proxy


class HttpResponse:
    """A response that is being received; as a context manager, it keeps the connection if it was read entirely."""

    def __init__(self, client: Client, channel: _Channel, origin: Origin, method: str) -> None:
        self._client = client
        self._channel = channel
        self._method = method
        self._incoming = Incoming(channel.receive)
        self._is_read = method == "HEAD"
        self.origin = origin
        self.address = channel.address  # the address in use; empty behind a proxy
        self.head: Head = self._incoming.read_head()

    def pieces(self, *, is_timed: bool = True, is_stream: bool = False) -> Iterator[bytes]:
        """Yield the body as it arrives; without *is_timed* only the limits on idle time and pace apply.

        With *is_stream*, its chunks may have any size.
        """
        if not is_timed:
            self._channel.timer.begin(is_timed=False)
        try:
            yield from self._incoming.read_body(self.head, self._method, is_stream=is_stream)
        except (OSError, NetworkError) as error:
            failure = explain(error, self._channel.proxy)
        else:
            self._is_read = True
            return
        # Raised outside the except block, as above.
        raise self._client.translate_error(self.origin, failure)

    def read(self, most_bytes: int) -> bytes:
        """Return the whole body, of at most *most_bytes* bytes."""
        received = bytearray()
        for piece in self.pieces():
            received += piece
            if len(received) > most_bytes:
                failure = TooLongError(f"the response is longer than {most_bytes} bytes")
                raise self._client.translate_error(self.origin, explain(failure, self._channel.proxy))
        return bytes(received)

    def switch(self) -> Tunnel:
        """Return the connection for the other protocol, whose waits the caller limits.

        Raise NetworkError, as translated, for a response that does not switch.
        """
        if self.head.status != _SWITCHED:
            failure = MalformedAnswerError("the response does not switch to another protocol")
            raise self._client.translate_error(self.origin, explain(failure, self._channel.proxy))
        return Tunnel(self._client, self.origin, self._channel, self._incoming.take_rest())

    def drain(self) -> None:
        """Read the rest of a short body, so that the connection can be kept, and close the response."""
        left = _MAX_DRAINED
        try:
            for piece in self._incoming.read_body(self.head, self._method):
                left -= len(piece)
                if left < 0:
                    break
            else:
                self._is_read = True
        except (OSError, NetworkError):
            pass
        self.close()

    def close(self) -> None:
        """Close the response; the connection is kept if the response was read entirely."""
        is_reusable = self._is_read and _stays_open(self.head, self._method)
        self._client.release(self._channel, is_reusable=is_reusable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tunnel:
    """A connection after the server has switched to another protocol; its response is closed by the caller."""

    def __init__(self, client: Client, origin: Origin, channel: _Channel, begun: bytes) -> None:
        self._client = client
        self._origin = origin
        self._channel = channel
        self._begun = begun

    def send(self, data: bytes, seconds: float) -> None:
        """Send all of *data*; each wait takes at most *seconds*."""
        self._channel.timer.limit_waits(seconds)
        try:
            self._channel.connection.send(data)
        except (OSError, NetworkError) as error:
            failure = explain(error, self._channel.proxy)
        else:
            return
        raise self._client.translate_error(self._origin, failure)

    def receive(self, seconds: float) -> bytes | None:
        """Return the bytes that have arrived, none at the end, and None if nothing arrives in *seconds*."""
        if self._begun:
            data, self._begun = self._begun, b""
            return data
        self._channel.timer.limit_waits(seconds)
        try:
            return self._channel.connection.receive()
        except TimeoutError:
            return None
        except (OSError, NetworkError) as error:
            failure = explain(error, self._channel.proxy)
        raise self._client.translate_error(self._origin, failure)


def _stays_open(head: Head, method: str) -> bool:
    """Return whether the connection can be used again, which needs a response with a known end."""
    if head.status == _SWITCHED:
        return False
    has_end = method == "HEAD" or bool(head.values("content-length") or head.values("transfer-encoding"))
    says = ",".join(head.values("connection")).lower()
    return has_end and "close" not in says
