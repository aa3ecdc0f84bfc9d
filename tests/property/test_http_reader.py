"""The reader of HTTP answers: the same however the bytes come in, as http.client has it, and never anything worse."""

from __future__ import annotations

import io
from collections.abc import Iterator
from http.client import HTTPResponse
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyferry._net.errors import ClosedEarlyError, MalformedAnswerError
from keyferry._net.messages import Incoming

Outcome = tuple[str, object]
TOKEN = st.text("abcXYZ019!#$%&'*+-.^_`|~", min_size=1, max_size=12)
VALUE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=20)
# What decides how a body is read is written by the strategies below.
DECIDING = ("content-length", "transfer-encoding", "connection")
# Answers that have no body, and may not say that they have one in chunks.
BODILESS = (204, 304)


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    """*data* cut at some places."""
    marks = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    yield from (data[start:end] for start, end in pairwise(marks))


def read(data: bytes, cuts: list[int], method: str = "GET") -> Outcome:
    """What the reader makes of an answer that comes in pieces."""
    source = pieces(data, cuts)
    incoming = Incoming(lambda: next(source, b""))
    try:
        head = incoming.read_head()
        return "answer", (head, b"".join(incoming.read_body(head, method)))
    except (ClosedEarlyError, MalformedAnswerError) as error:
        return "malformed", str(error)


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """A body in chunks, with extensions and trailers now and then."""
    parts = [piece for piece in pieces(body, draw(st.lists(st.integers(0, 1000), max_size=4))) if piece]
    extension = draw(st.sampled_from(["", ";a=b", " ", ' ;x="y"']))
    trailer = draw(st.sampled_from(["", "X: y\r\n", "A: b\r\nC: d\r\n"]))
    written = [f"{len(part):x}{extension}\r\n".encode() + part + b"\r\n" for part in parts]
    return b"".join([*written, b"0\r\n", trailer.encode(), b"\r\n"])


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A well-formed answer."""
    status = draw(st.sampled_from([200, 201, 204, 304, 400, 401, 503, 999]))
    version = draw(st.sampled_from(["1.0", "1.1"]))
    headers = [
        f"{name}: {value}"
        for name, value in draw(st.lists(st.tuples(TOKEN, VALUE), max_size=5))
        if name.lower() not in DECIDING
    ]
    body = draw(st.binary(max_size=200))
    form = draw(st.sampled_from(["length", "chunks", "rest"]))
    if form == "length":
        headers.append(f"Content-Length: {len(body)}")
    elif form == "chunks" and version == "1.1" and status not in BODILESS:
        headers.append("Transfer-Encoding: chunked")
        body = draw(chunked(body))
    informational = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    reason = draw(st.sampled_from(["OK", "", "Not Found At All"]))
    head = "\r\n".join([f"HTTP/{version} {status} {reason}", *headers, "", ""])
    return informational + head.encode("latin-1") + body


class _Source:
    """What http.client takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


@given(answers(), st.sampled_from(["GET", "HEAD"]))
def test_a_well_formed_answer_is_what_the_standard_library_reads(data: bytes, method: str) -> None:
    """Status, headers and body are the same."""
    response = HTTPResponse(cast("Any", _Source(data)), method=method)
    response.begin()
    expected = response.read()
    kind, found = read(data, [], method)
    assert kind == "answer"
    head, body = cast("tuple[Any, bytes]", found)
    assert (head.status, body) == (response.status, expected)
    headers = [(name.lower(), value.strip(" \t")) for name, value in response.getheaders()]
    assert list(head.headers) == headers


@given(answers(), st.lists(st.integers(0, 2000), max_size=8), st.integers(0, 2000))
def test_any_split_of_an_answer_gives_the_same(data: bytes, cuts: list[int], end: int) -> None:
    """However the bytes come in, and wherever they end."""
    for whole in (data, data[: end % (len(data) + 1)]):
        assert read(whole, cuts) == read(whole, []) == read(whole, list(range(len(whole))))


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5), st.booleans())
@example(b"HTTP/1.1 200 OK\r\n\r\n", [], True)
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", [], True)
def test_arbitrary_bytes_give_an_answer_or_a_malformed_one(
    data: bytes, cuts: list[int], has_start: bool
) -> None:
    """Nothing else is raised, and the reader always comes to an end."""
    whole = b"HTTP/1.1 " * has_start + data
    outcome = read(whole, cuts)
    assert outcome == read(whole, [])
    assert outcome[0] in ("answer", "malformed")


@given(answers(), st.binary(min_size=1, max_size=3), st.integers(0, 500))
def test_an_answer_with_some_bytes_changed_is_read_the_same_in_pieces(
    data: bytes, change: bytes, at: int
) -> None:
    """Half-right answers are where readers differ; ours does not differ from itself."""
    place = at % (len(data) + 1)
    whole = data[:place] + change + data[place + len(change) :]
    assert read(whole, []) == read(whole, list(range(len(whole))))


HEAD = b"HTTP/1.1 200 OK\r\nX: "
SIZES = [(1 << 16) + offset - len(HEAD) for offset in (-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5)]


@pytest.mark.parametrize("step", [1 << 15, 1 << 16, (1 << 16) + 3, 1 << 20])
@pytest.mark.parametrize("size", SIZES)
def test_the_limit_of_a_head_is_the_same_in_any_split(size: int, step: int) -> None:
    """A head of 65536 bytes is read, one byte more is not, whatever a single read brings."""
    data = HEAD + b"y" * size + b"\r\n\r\n"
    expected = "answer" if len(HEAD) + size <= 1 << 16 else "malformed"
    outcomes = {read(data, list(range(0, len(data), step)))[0], read(data, [])[0]}
    assert outcomes == {expected}


@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize(("size", "expected"), [(4094, "answer"), (4095, "malformed")])
def test_the_limit_of_a_chunks_line_is_the_same_in_any_split(size: int, expected: str, step: int) -> None:
    """A size with an extension of 4096 bytes together is read, one byte more is not."""
    body = b"0;" + b"x" * size + b"\r\n\r\n"
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    assert read(data, list(range(0, len(data), step)))[0] == expected


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_stream_may_come_in_chunks_of_any_size(*, is_stream: bool) -> None:
    """A log that is followed, and has empty lines, is read for ever; no other answer is."""
    parts = iter([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1\r\n\n\r\n" * 1000] * 300])
    incoming = Incoming(lambda: next(parts, b""))
    body = incoming.read_body(incoming.read_head(), is_stream=is_stream)
    kind, words = (ClosedEarlyError, "was cut off") if is_stream else (MalformedAnswerError, "too small")
    with pytest.raises(kind, match=words):
        b"".join(body)


def test_chunks_cost_their_own_length_and_not_that_of_all_that_came_with_them() -> None:
    """What was received is not copied anew for every chunk of it: for these that would take ten minutes."""
    chunks = b"8\r\n01234567\r\n" * 500_000
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    kind, found = read(data, [])
    assert kind == "answer"
    _, body = cast("tuple[Any, bytes]", found)
    assert body == b"01234567" * 500_000
