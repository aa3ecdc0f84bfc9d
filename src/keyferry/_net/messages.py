"""Parse HTTP/1.1 responses, strictly and with limits on their size.

A server may be hostile, so anything that two parsers could read differently is rejected, in contrast to
``http.client``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from keyferry._core.values import Value
from keyferry._net.errors import ClosedEarlyError, MalformedAnswerError, RequestError

MAX_HEAD_BYTES = 1 << 16
_MAX_HEADERS = 200
_MAX_CHUNK_LINE = 1 << 12
# The overhead of chunks may be this much, and beyond that no more than their content.
_FREE_FRAMING_BYTES = 1 << 20
_CHUNK_MARKS = len("\r\n\r\n")
_START = b"HTTP/1."
_CODE_DIGITS = 3
_BODILESS = (204, 304)
_DIGITS = frozenset("0123456789")
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_NAME_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Head(Value):
    """Status line and header fields in the order of arrival; names are in lower case."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()
    version: str = "HTTP/1.1"

    def values(self, name: str) -> list[str]:
        """Return all values of a field."""
        return header_values(self.headers, name)

    def value(self, name: str) -> str:
        """Return the first value of a field, or an empty string."""
        return next(iter(self.values(name)), "")


def header_values(headers: Iterable[tuple[str, str]], name: str) -> list[str]:
    """Return all values of a field, whose name is given in lower case."""
    return [value for found, value in headers if found == name]


def encode_request_head(method: str, target: str, headers: list[tuple[str, str]]) -> bytes:
    """Return the bytes before a request's body; raise RequestError for characters that HTTP does not allow."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    is_broken = any(mark in line for line in lines for mark in "\r\n\0")
    if not is_broken and " " not in target and all(map(_is_token, (method, *(name for name, _ in headers)))):
        try:
            return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            pass
    raise RequestError("a header or the address of the request has characters that HTTP does not allow")


class Incoming:
    """One response as it arrives; *receive* returns the next bytes, and none at the end of the connection."""

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        # The last data received, and the offset of its unread part: slicing the data each time would copy it.
        self._buffer = b""
        self._at = 0

    @property
    def has_more(self) -> bool:
        """Whether bytes have arrived that are not read yet, such as some after the end of the body."""
        return self._at < len(self._buffer)

    def take_rest(self) -> bytes:
        """Return the bytes that have arrived and are not read yet; they belong to another protocol."""
        rest, self._buffer, self._at = self._buffer[self._at :], b"", 0
        return rest

    def read_head(self) -> Head:
        """Return the head of the final response; informational responses are skipped."""
        while True:
            head = _parse_head(self._take_head())
            if head.status >= 200 or head.status == 101:  # below 200 another response follows
                return head

    def read_body(self, head: Head, method: str = "GET", *, is_stream: bool = False) -> Iterator[bytes]:
        """Return an iterator over the body as it arrives; with *is_stream*, chunks may have any size, without end."""
        if method == "HEAD" or head.status in _BODILESS:
            return iter(())
        codings = [
            coding.strip().lower()
            for value in head.values("transfer-encoding")
            for coding in value.split(",")
        ]
        lengths = {length.strip() for value in head.values("content-length") for length in value.split(",")}
        if codings:
            if codings != ["chunked"] or lengths:
                raise MalformedAnswerError(
                    "the response has an unknown Transfer-Encoding, or a Content-Length beside it"
                )
            return self._chunks(float("inf") if is_stream else _FREE_FRAMING_BYTES)
        if not lengths:
            return self._rest()
        if len(lengths) > 1:
            raise MalformedAnswerError("the response has two different lengths")
        return self._exactly(_parse_number(lengths.pop(), _DIGITS, 10))

    def _take_head(self) -> str:
        # Checked at once: a server of another protocol may wait for the client.
        while _START.startswith(begun := self._buffer[self._at : self._at + len(_START)]) and begun != _START:
            self._more("the response was cut off" if begun else "it closed the connection without a response")
        if begun != _START:
            raise MalformedAnswerError("the response is not HTTP")
        return self._take_until(b"\r\n\r\n", MAX_HEAD_BYTES, "the head of the response is too long")

    def _take_until(self, end: bytes, most: int, problem: str) -> str:
        """Return the text before *end*; the limit *most* applies regardless of how the data arrives."""
        searched = 0
        while (at := self._buffer.find(end, self._at + searched, self._at + most + len(end))) < 0:
            searched = max(len(self._buffer) - self._at - len(end) + 1, 0)
            if searched > most:
                raise MalformedAnswerError(problem)
            self._more("the response was cut off")
        taken, self._at = self._buffer[self._at : at], at + len(end)
        return taken.decode("latin-1")

    def _more(self, problem: str) -> None:
        data = self._receive()
        if not data:
            raise ClosedEarlyError(problem)
        self._buffer, self._at = self._buffer[self._at :] + data, 0

    def _rest(self) -> Iterator[bytes]:
        data = self._buffer[self._at :] or self._receive()
        while data:
            yield data
            data = self._receive()

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size > 0:
            if self._at == len(self._buffer):
                self._more("the response was cut off")
            piece = self._buffer[self._at : self._at + size]
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def _chunks(self, free_bytes: float) -> Iterator[bytes]:
        framing = -free_bytes
        while size := _parse_number((line := self._line()).partition(";")[0].rstrip(" \t"), _HEX_DIGITS, 16):
            # Each chunk takes time to parse, however short it is.
            framing += len(line) + _CHUNK_MARKS - size
            if framing > 0:
                raise MalformedAnswerError("the chunks of the response are too small")
            yield from self._exactly(size)
            if self._line():
                raise MalformedAnswerError("a chunk of the response is longer than its size")
        read = 0
        while line := self._line():
            read += len(line)
            if read > MAX_HEAD_BYTES:
                raise MalformedAnswerError("the trailer of the response is too long")

    def _line(self) -> str:
        return self._take_until(b"\r\n", _MAX_CHUNK_LINE, "a line of the response is too long")


def _parse_head(text: str) -> Head:
    first, *lines = text.split("\r\n")
    version, _, rest = first.partition(" ")
    code, _, reason = rest.partition(" ")
    is_code = len(code) == _CODE_DIGITS and _DIGITS.issuperset(code) and code >= "100"
    if version not in ("HTTP/1.1", "HTTP/1.0") or not is_code or any(mark in reason for mark in "\r\n\0"):
        raise MalformedAnswerError("the response is not HTTP")
    if len(lines) > _MAX_HEADERS:
        raise MalformedAnswerError("the response has too many headers")
    headers = tuple(map(_parse_header, lines))
    return Head(status=int(code), reason=reason, headers=headers, version=version)


def _parse_header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    # Request smuggling has used each of these: a blank before the colon, a folded line, a bare line break.
    if not colon or not _is_token(name) or any(mark in value for mark in "\r\n\0"):
        raise MalformedAnswerError("a header of the response is malformed")
    return name.lower(), value.strip(" \t")


def _is_token(text: str) -> bool:
    return bool(text) and _NAME_CHARACTERS.issuperset(text)


def _parse_number(text: str, digits: frozenset[str], radix: int) -> int:
    if not text or len(text) > 16 or not digits.issuperset(text):  # 64 bits
        raise MalformedAnswerError("a length in the response is not a number")
    return int(text, radix)
