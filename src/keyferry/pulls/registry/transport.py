"""HTTP/1.1 to registries: connections that are kept, waits that end, and a say in which address is dialled.

The only module of this room that knows how bytes get to a server.
"""

import ssl
from collections.abc import Callable, Mapping
from threading import Lock
from time import monotonic

from keyferry._net.connection import Connection, connect, describe
from keyferry._net.deadline import Deadline
from keyferry._net.forms import encode_form, encode_query
from keyferry._net.messages import MalformedAnswerError, encode_request_head
from keyferry._net.proxy import Origin, authorization, choose_proxy, split_url
from keyferry._net.trust import advise_on
from keyferry.errors import HttpError
from keyferry.pulls.registry.addresses import literal_address
from keyferry.pulls.registry.answer import Answer
from keyferry.pulls.registry.route import Route, make_context

__all__ = ["Admit", "Answer", "Deadline", "Origin", "Transport", "encode_form", "encode_query", "split_url"]

Admit = Callable[[str], None]

_MOST_SPARE = 8


class Patience(Deadline):
    """How long one connection may wait: for a read, for an answer, at a pace, and for everything together."""

    __slots__ = ("_outer", "_received", "_route", "_waited")

    def __init__(self, outer: Deadline, route: Route) -> None:
        super().__init__(route.answer_seconds)
        self._outer = outer
        self._route = route
        self._waited = 0.0
        self._received = 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the answer, or everything, must be there."""
        return min(self._end - monotonic(), self._outer.seconds_left)

    def remaining(self) -> float:
        """Seconds that the next wait may take."""
        return min(super().remaining(), self._route.idle_seconds)

    def limit(self, seconds: float) -> None:
        """Begin anew with what comes next on the connection."""
        self._end = monotonic() + seconds
        self._waited, self._received = 0.0, 0

    def note(self, seconds: float, size: int) -> None:
        """Note that a wait brought *size* bytes; raises TimeoutError for a server that trickles."""
        self._waited += seconds
        self._received += size
        if self._waited >= self._route.pace_seconds:
            if self._received < self._route.pace_bytes:
                raise TimeoutError
            self._waited, self._received = 0.0, 0


class Channel:
    """A connection, the address at its other end, and how long it may wait."""

    def __init__(
        self, connection: Connection, patience: Patience, address: str, proxy: Origin | None
    ) -> None:
        self.connection = connection
        self.patience = patience
        self.address = address  # empty behind a proxy
        self.proxy = proxy

    def receive(self) -> bytes:
        """What has come in, or nothing at the end."""
        began = monotonic()
        data = self.connection.receive()
        self.patience.note(monotonic() - began, len(data))
        return data


class Transport:
    """Connections to every server of one pull; safe to use from several threads."""

    def __init__(self, route: Route, deadline: Deadline) -> None:
        self.route = route
        self._deadline = deadline
        self._lock = Lock()
        self._tls: ssl.SSLContext | None = None
        self._spare: dict[tuple[str, str, int], list[Channel]] = {}
        self._busy: set[Channel] = set()

    def request(
        self, origin: Origin, method: str, headers: Mapping[str, str], body: bytes = b"", *, admit: Admit
    ) -> Answer:
        """Send a request and read the head of the answer; raises HttpError.

        *admit* is given the address before anything goes there, and raises for one that must not be; behind a
        proxy, which resolves names itself, it is given nothing for a name.
        """
        proxy = choose_proxy(origin) if self.route.use_proxy else None
        problem: Exception
        try:
            spare = self._take(origin)
            if spare is not None:
                try:
                    return self._exchange(spare, origin, method, headers, body, admit)
                except (ConnectionError, ssl.SSLError, MalformedAnswerError):
                    pass  # the server has ended it meanwhile, as it may
            return self._exchange(self._open(origin, proxy, admit), origin, method, headers, body, admit)
        except (OSError, ValueError, MalformedAnswerError) as error:
            problem = error
        # Raised out here on purpose: the frames of what was caught hold headers and bodies.
        raise self.failure(origin, problem, proxy)

    def speaks_tls(self, origin: Origin) -> bool:
        """Tell whether a server speaks TLS; raises HttpError if it does and is not to be trusted, or is not there."""
        problem: Exception
        try:
            channel = self._open(
                origin, choose_proxy(origin) if self.route.use_proxy else None, lambda _: None
            )
        except (ssl.SSLCertVerificationError, ConnectionRefusedError) as error:
            problem = error
        except (ssl.SSLError, ConnectionError, TimeoutError):
            return False
        except (OSError, MalformedAnswerError) as error:
            problem = error
        else:
            self.release(origin, channel, is_reusable=True)
            return True
        raise self.failure(origin, problem, None)

    def release(self, origin: Origin, channel: Channel, *, is_reusable: bool) -> None:
        """Keep a connection for the next request, or end it."""
        with self._lock:
            self._busy.discard(channel)
            spare = self._spare.setdefault(_key(origin), [])
            if is_reusable and len(spare) < _MOST_SPARE:
                spare.append(channel)
                return
        channel.connection.close()

    @staticmethod
    def failure(origin: Origin, error: Exception, proxy: Origin | None) -> HttpError:
        """What went wrong on the way, in words that hold nothing of a request or an answer."""
        hint = advise_on(
            error,
            "if its authority is a private one, name its certificate with --ca-file or in SSL_CERT_FILE",
        )
        via = "" if proxy is None else f" (through the proxy {proxy})"
        return HttpError(str(origin), describe(error) + via, hint, isinstance(error, TimeoutError))

    def interrupt(self) -> None:
        """End every exchange under way: their threads come back at once."""
        with self._lock:
            for channel in self._busy:
                channel.connection.abort()

    def close(self) -> None:
        """End the connections that are kept."""
        with self._lock:
            spares = [channel for channels in self._spare.values() for channel in channels]
            self._spare = {}
        for channel in spares:
            channel.connection.close()

    def _take(self, origin: Origin) -> Channel | None:
        with self._lock:
            spare = self._spare.get(_key(origin))
            if not spare:
                return None
            channel = spare.pop()
            self._busy.add(channel)
            return channel

    def _open(self, origin: Origin, proxy: Origin | None, admit: Admit) -> Channel:
        dialled: list[str] = []

        def note(address: str) -> None:
            admit(address)
            dialled.append(address)

        if proxy is not None:
            admit(literal_address(origin.host))
        patience = Patience(self._deadline, self.route)
        connection = connect(
            origin,
            proxy=proxy,
            tls=self._context,
            deadline=patience,
            connect_seconds=self.route.connect_seconds,
            admit=note if proxy is None else None,
        )
        channel = Channel(connection, patience, dialled[-1] if dialled else "", proxy)
        with self._lock:
            self._busy.add(channel)
        return channel

    def _exchange(  # noqa: PLR0917 - the parts of a request, and who is asked
        self,
        channel: Channel,
        origin: Origin,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
        admit: Admit,
    ) -> Answer:
        try:
            admit(channel.address or literal_address(origin.host))
            channel.patience.limit(self.route.answer_seconds)
            channel.connection.send(_encode(channel, origin, method, headers, body) + body)
            return Answer(self, channel, origin, method)
        except BaseException:
            self.release(origin, channel, is_reusable=False)
            raise

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = make_context(self.route)
            return self._tls


def _key(origin: Origin) -> tuple[str, str, int]:
    return origin.scheme, origin.host, origin.port


def _encode(channel: Channel, origin: Origin, method: str, headers: Mapping[str, str], body: bytes) -> bytes:
    from keyferry import __version__

    lines = [
        ("Host", origin.authority),
        ("User-Agent", f"keyferry/{__version__}"),
        ("Accept-Encoding", "identity"),
        *headers.items(),
    ]
    if method == "POST":
        lines.append(("Content-Length", str(len(body))))
    target = origin.target
    if channel.proxy is not None and origin.scheme == "http":
        target = f"http://{origin.authority}{target}"
        lines += authorization(channel.proxy)
    return encode_request_head(method, target, lines)
