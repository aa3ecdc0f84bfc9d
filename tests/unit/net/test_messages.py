"""Answers that two parsers could read differently are refused, each for its own reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keyferry._net.errors import ClosedEarlyError, MalformedAnswerError
from keyferry._net.messages import Incoming

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def read(answer: bytes, step: int = 1 << 20) -> tuple[int, bytes]:
    pieces: Iterator[bytes] = (answer[at : at + step] for at in range(0, len(answer), step))
    incoming = Incoming(lambda: next(pieces, b""))
    head = incoming.read_head()
    return head.status, b"".join(incoming.read_body(head))


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (OK + b"Content-Length: 2, 2\r\n\r\nhi", b"hi"),
        (OK + b"Content-Length: 0000000000000002\r\n\r\nhi", b"hi"),
        (OK + CHUNKED + b"\r\n2\r\nhi\r\n0\r\n\r\n", b"hi"),
        (OK + b"\r\nhi", b"hi"),
    ],
)
def test_a_body_is_as_long_as_the_head_says(answer: bytes, body: bytes, step: int) -> None:
    assert read(answer, step) == (200, body)


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (OK + b"X : y\r\n\r\n", "a header of the response is malformed"),
        (OK + b" folded\r\n\r\n", "a header of the response is malformed"),
        (OK + b"X: a\r\n folded: y\r\n\r\n", "a header of the response is malformed"),
        (OK + b"no colon\r\n\r\n", "a header of the response is malformed"),
        (OK + b"X: a\nY: b\r\n\r\n", "a header of the response is malformed"),
        (OK + b"X: a\x00\r\n\r\n", "a header of the response is malformed"),
        (OK + CHUNKED + b"Content-Length: 2\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "a Content-Length beside it"),
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "an unknown Transfer-Encoding"),
        (OK + b"Transfer-Encoding: identity\r\n\r\nhi", "an unknown Transfer-Encoding"),
        (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", "two different lengths"),
        (OK + b"Content-Length: +2\r\n\r\nhi", "a length in the response is not a number"),
        (OK + b"Content-Length: \r\n\r\nhi", "a length in the response is not a number"),
        (OK + b"Content-Length: 00000000000000002\r\n\r\nhi", "a length in the response is not a number"),
        (OK + CHUNKED + b"\r\n0x2\r\nhi\r\n0\r\n\r\n", "a length in the response is not a number"),
        (OK + CHUNKED + b"\r\n2\r\nhi!\r\n0\r\n\r\n", "a chunk of the response is longer than its size"),
        (OK + CHUNKED + b"\r\n2" + b" " * 5000 + b"\r\nhi\r\n", "a line of the response is too long"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "the response is not HTTP"),
        (b"SSH-2.0-x\r\n\r\n", "the response is not HTTP"),
        (OK + b"X: y\r\n" * 201 + b"\r\n", "the response has too many headers"),
    ],
)
def test_what_is_ambiguous_is_refused(answer: bytes, problem: str, step: int) -> None:
    """However it arrives."""
    with pytest.raises(MalformedAnswerError, match=problem):
        read(answer, step)


@pytest.mark.parametrize("step", [1000, 1 << 20])
def test_a_head_without_an_end_is_not_read_for_ever(step: int) -> None:
    with pytest.raises(MalformedAnswerError, match="the head of the response is too long"):
        read(OK + b"X: " + b"y" * (1 << 17), step)


@pytest.mark.parametrize(
    "answer", [b"", b"HTT", OK, OK + b"Content-Length: 3\r\n\r\nhi", OK + CHUNKED + b"\r\n2\r\nh"]
)
def test_what_is_cut_off_is_no_answer(answer: bytes) -> None:
    with pytest.raises(ClosedEarlyError):
        read(answer)
