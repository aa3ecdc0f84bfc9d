"""Go's JSON scanner, reimplemented byte by byte, to compare keyferry's error texts with.

After ``encoding/json`` of Go 1.27 (``v2_scanner.go``, ``internal/jsonwire/decode.go``, ``jsontext/decode.go``).
"""

from __future__ import annotations

from keyferry._core.gotext import quote, quote_rune

_SIMPLE_ESCAPES = b'"\\/bfnrt'
_HEX = b"0123456789abcdefABCDEF"


class GoSyntaxError(Exception):
    """An error with Go's text."""


def go_error(data: bytes) -> str | None:
    """Return Go's error for *data* as one JSON value; None if it is valid."""
    scanner = _Scanner(data)
    try:
        scanner.document()
    except GoSyntaxError as error:
        return str(error)
    return None


class _Scanner:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def document(self) -> None:
        self.blanks()
        self.value()
        self.blanks()
        if self.at < len(self.data):
            raise self.invalid("after top-level value")

    def peek(self) -> bytes:
        """Return the next byte; raise an error at the end of the input."""
        if self.at >= len(self.data):
            raise GoSyntaxError("unexpected end of JSON input")
        return self.data[self.at : self.at + 1]

    def invalid(self, where: str) -> GoSyntaxError:
        rune = self.data[self.at : self.at + 4].decode("utf-8", "surrogateescape")[0]
        return GoSyntaxError(f"invalid character {quote_rune(rune)} {where}")

    def blanks(self) -> None:
        while self.data[self.at : self.at + 1] in (b" ", b"\t", b"\r", b"\n"):
            self.at += 1

    def value(self) -> None:
        first = self.peek()
        literals = {b"t": b"true", b"f": b"false", b"n": b"null"}
        if first == b"{":
            self.container(b"}", "after object key:value pair", self.member)
        elif first == b"[":
            self.container(b"]", "after array element", self.value)
        elif first == b'"':
            self.string("looking for beginning of value")
        elif first in literals:
            self.literal(literals[first])
        elif first in b"-0123456789":
            self.number()
        else:
            raise self.invalid("looking for beginning of value")

    def container(self, end: bytes, where: str, item: object) -> None:
        assert callable(item)
        self.at += 1
        self.blanks()
        if self.peek() == end:
            self.at += 1
            return
        while True:
            item()
            self.blanks()
            if self.peek() == end:
                self.at += 1
                return
            if self.peek() != b",":
                raise self.invalid(where)
            self.at += 1
            self.blanks()
            self.peek()

    def member(self) -> None:
        self.peek()
        self.string("looking for beginning of object key string")
        self.blanks()
        if self.peek() != b":":
            raise self.invalid("after object key")
        self.at += 1
        self.blanks()
        self.value()

    def literal(self, word: bytes) -> None:
        for expected in word:
            if self.peek()[0] != expected:
                raise self.invalid(f"in literal {word.decode()} (expecting '{chr(expected)}')")
            self.at += 1

    def number(self) -> None:
        if self.peek() == b"-":
            self.at += 1
        if self.peek() == b"0":
            self.at += 1
        else:
            self.digits()
        if self.data[self.at : self.at + 1] == b".":
            self.at += 1
            self.digits()
        if self.data[self.at : self.at + 1] in (b"e", b"E"):
            self.at += 1
            if self.data[self.at : self.at + 1] in (b"+", b"-"):
                self.at += 1
            self.digits()

    def digits(self) -> None:
        if not self.peek().isdigit():
            raise self.invalid("in numeric literal")
        while self.data[self.at : self.at + 1].isdigit():
            self.at += 1

    def string(self, where: str) -> None:
        if self.peek() != b'"':
            raise self.invalid(where)
        self.at += 1
        while self.peek() != b'"':
            if self.peek() == b"\\":
                self.escape()
            elif self.peek() < b" ":
                raise self.invalid("in string")
            else:
                self.at += 1
        self.at += 1

    def escape(self) -> None:
        rest = self.data[self.at : self.at + 6]
        if len(rest) == 1:
            raise GoSyntaxError("unexpected end of JSON input")
        if rest[1] in _SIMPLE_ESCAPES:
            self.at += 2
        elif rest[1] != ord("u"):
            raise GoSyntaxError(f"invalid escape sequence {_sequence(rest[:2])} in string")
        elif all(byte in _HEX for byte in rest[2:]):
            if len(rest) < 6:
                raise GoSyntaxError("unexpected end of JSON input")
            self.at += 6
        else:
            raise GoSyntaxError(f"invalid escape sequence {_sequence(rest)} in string")


def _sequence(data: bytes) -> str:
    text = data.decode("utf-8", "surrogateescape")
    if not text.isprintable() or any(c.isspace() or c in "`\ufffd" for c in text):
        return quote(text)
    return f"`{text}`"
