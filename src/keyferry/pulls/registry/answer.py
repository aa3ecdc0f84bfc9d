"""An answer of a server, as it comes in."""

from collections.abc import Iterator

from keyferry._net.messages import Head, Incoming, MalformedAnswerError
from keyferry.errors import HttpError
from keyferry.pulls.registry.addresses import is_here, is_loopback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from keyferry.pulls.registry.transport import Channel, Origin, Transport

__all__ = ["Answer"]

_NO_LIMIT = float("inf")
_MOST_DRAINED = 1 << 16


class Answer:
    """An answer as it comes in; use it in a ``with`` block, which keeps the connection if all of it was read."""

    def __init__(self, transport: "Transport", channel: "Channel", origin: "Origin", method: str) -> None:
        self._transport = transport
        self._channel = channel
        self.origin = origin
        self._method = method
        self._incoming = Incoming(channel.receive)
        self._is_read = method == "HEAD"
        self.head: Head = self._incoming.read_head()

    @property
    def is_from_loopback(self) -> bool:
        """Tell whether a loopback address was dialled."""
        return bool(self._channel.address) and is_loopback(self._channel.address)

    @property
    def is_from_here(self) -> bool:
        """Tell whether the server is on this machine, by the address that was dialled."""
        return bool(self._channel.address) and is_here(self._channel.address)

    def pieces(self, *, is_timed: bool = True) -> Iterator[bytes]:
        """The body as it arrives; without *is_timed* it may take any time, at the route's pace. Raises HttpError."""
        problem: Exception | None = None
        try:
            if not is_timed:
                self._channel.patience.limit(_NO_LIMIT)
            yield from self._incoming.read_body(self.head, self._method)
            self._is_read = True
        except (OSError, MalformedAnswerError) as error:
            problem = error
        if problem is not None:
            raise self._transport.failure(self.origin, problem, self._channel.proxy)

    def read(self, most_bytes: int) -> bytes:
        """The whole body, of at most so many bytes; raises HttpError."""
        received = bytearray()
        for piece in self.pieces():
            received += piece
            if len(received) > most_bytes:
                raise HttpError(str(self.origin), f"the answer is longer than {most_bytes} bytes")
        return bytes(received)

    def drain(self) -> None:
        """Have done with it: what is left of a short body is read, so that the connection can be kept."""
        try:
            self.read(_MOST_DRAINED)
        except HttpError:
            pass
        self.close()

    def close(self) -> None:
        """Have done with it; the connection is kept if all of it was read."""
        is_reusable = self._is_read and _stays_open(self.head, self._method)
        self._transport.release(self.origin, self._channel, is_reusable=is_reusable)

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stays_open(head: Head, method: str) -> bool:
    """Tell whether another answer may follow on the connection: this one had an end of its own."""
    has_end = method == "HEAD" or bool(head.values("content-length") or head.values("transfer-encoding"))
    says = ",".join(head.values("connection")).lower()
    return has_end and "close" not in says
