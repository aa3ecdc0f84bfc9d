"""Hostile servers, and requests that somebody bent, against the SDK's HTTP: a clear error, and no second meaning."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from keyferry._net.http_errors import split_url
from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import ONCE, HttpOptions, fetch
from support.certificates import make_certificate, make_key
from support.fake_cloud import PATIENCE_SECONDS, FakeServer, Reply, serving
from support.sdk_plugins import SECRET
from support.terminal import PROMPT, run_on_terminal

LATE = 60.0
MEGABYTE = 1 << 20

pytestmark = pytest.mark.usefixtures("plain_network")


def answer(*lines: str, body: bytes = b"") -> bytes:
    """An answer of such lines."""
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1") + body


OK = "HTTP/1.1 200 OK"
MALFORMED = {
    "http-0.9": (b"<html>hello</html>\r\n\r\n", "is not HTTP"),
    "http-2": (answer("HTTP/2 200"), "is not HTTP"),
    "http-2-preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "is not HTTP"),
    "ssh": (b"SSH-2.0-x\r\n\r\n", "is not HTTP"),
    "tls-alert": (b"\x15\x03\x01\x00\x02\x02\x46", "is not HTTP"),
    "no-status": (answer("HTTP/1.1"), "is not HTTP"),
    "status-word": (answer("HTTP/1.1 OK"), "is not HTTP"),
    "status-long": (answer("HTTP/1.1 2000 OK"), "is not HTTP"),
    "status-low": (answer("HTTP/1.1 099 OK"), "is not HTTP"),
    "status-sign": (answer("HTTP/1.1 +20 OK"), "is not HTTP"),
    "status-unicode": (answer("HTTP/1.1 2\xb20 OK"), "is not HTTP"),
    "line-break-in-reason": (answer("HTTP/1.1 200 OK\nX: y"), "is not HTTP"),
    "blank-before-colon": (answer(OK, "Content-Length : 0"), "header"),
    "folded": (answer(OK, "X: a", " b"), "header"),
    "no-colon": (answer(OK, "hello"), "header"),
    "no-name": (answer(OK, ": x"), "header"),
    "bare-line-break": (answer(OK, "X: a\nContent-Length: 5"), "header"),
    "bare-return": (answer(OK, "X: a\rContent-Length: 5"), "header"),
    "nul": (answer(OK, "X: \0"), "header"),
    "umlaut-name": (answer(OK, "X\xe4: a"), "header"),
    "too-many": (answer(OK, *["X: y"] * 201), "too many headers"),
    "huge-header": (answer(OK, "X: " + "y" * 70_000), "too long"),
    "endless-head": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000, "too long"),
    "two-lengths": (answer(OK, "Content-Length: 1", "Content-Length: 2", body=b"xx"), "two different lengths"),
    "two-lengths-in-one": (answer(OK, "Content-Length: 1, 2", body=b"xx"), "two different lengths"),
    "both-ways": (
        answer(OK, "Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        "a Content-Length beside it",
    ),
    "unknown-coding": (answer(OK, "Transfer-Encoding: gzip", body=b"x"), "unknown Transfer-Encoding"),
    "chunked-twice": (answer(OK, "Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"), "Content-Length beside it"),
    "chunked-not-last": (answer(OK, "Transfer-Encoding: chunked, gzip"), "a Content-Length beside it"),
    "negative-length": (answer(OK, "Content-Length: -1"), "not a number"),
    "signed-length": (answer(OK, "Content-Length: +1", body=b"x"), "not a number"),
    "hex-length": (answer(OK, "Content-Length: 0x1", body=b"x"), "not a number"),
    "no-length": (answer(OK, "Content-Length:"), "not a number"),
    "overflowing-length": (answer(OK, "Content-Length: 99999999999999999"), "not a number"),
    "short-body": (answer(OK, "Content-Length: 10", body=b"x"), "was cut off"),
    "chunk-size-word": (answer(OK, "Transfer-Encoding: chunked", body=b"x\r\n"), "not a number"),
    "chunk-size-sign": (answer(OK, "Transfer-Encoding: chunked", body=b"-1\r\n"), "not a number"),
    "chunk-size-overflow": (answer(OK, "Transfer-Encoding: chunked", body=b"f" * 17 + b"\r\n"), "not a number"),
    "chunk-too-long": (answer(OK, "Transfer-Encoding: chunked", body=b"1\r\nxy\r\n0\r\n\r\n"), "longer than its size"),
    "chunk-cut": (answer(OK, "Transfer-Encoding: chunked", body=b"5\r\nx"), "was cut off"),
    "no-last-chunk": (answer(OK, "Transfer-Encoding: chunked", body=b"1\r\nx\r\n"), "was cut off"),
    "no-trailer-end": (answer(OK, "Transfer-Encoding: chunked", body=b"0\r\nX: y\r\n"), "was cut off"),
    "endless-size": (answer(OK, "Transfer-Encoding: chunked", body=b"0" * 10_000), "too long"),
    "endless-trailer": (answer(OK, "Transfer-Encoding: chunked", body=b"0\r\n" + b"X: y\r\n" * 50_000), "too long"),
    "nothing": (b"", "closed the connection without a response"),
    "cut-head": (b"HTTP/1.1 200 OK\r\nX", "was cut off"),
    "only-informational": (answer("HTTP/1.1 100 Continue"), "closed the connection without a response"),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED.values(), ids=MALFORMED)
def test_what_two_readers_could_take_in_two_ways_is_refused(case: tuple[bytes, str]) -> None:
    """An answer is plain HTTP/1, or an error; a body is whole, or an error."""
    raw, words = case
    with FakeServer(lambda _: Reply(raw=raw)) as server, pytest.raises(HttpError) as caught:
        fetch("GET", f"{server.url}/x?{SECRET}", deadline=Deadline(LATE), retry=ONCE)
    assert words in caught.value.problem
    assert SECRET not in str(caught.value)


def test_small_chunks_do_not_outlast_the_limit() -> None:
    """A body of one-byte chunks costs work for every byte; the time for an attempt bounds it."""
    chunks = b"1\r\nx\r\n" * 100_000

    def endless(client: socket.socket, stop: threading.Event) -> None:
        client.sendall(answer(OK, "Transfer-Encoding: chunked"))
        while not stop.is_set():
            client.sendall(chunks)

    with raw_server(endless) as port:
        started = time.monotonic()
        with pytest.raises(HttpError):
            fetch(
                "GET", f"http://127.0.0.1:{port}/", deadline=Deadline(LATE), retry=ONCE,
                options=HttpOptions(attempt_seconds=0.5),
            )  # fmt: skip
        assert time.monotonic() - started < PATIENCE_SECONDS


def test_megabytes_of_one_byte_chunks_are_refused() -> None:
    """Not by the time that they take: what chunks may cost beside their content is bounded."""
    body = b"1\r\nx\r\n" * (4 * MEGABYTE) + b"0\r\n\r\n"
    raw = answer(OK, "Transfer-Encoding: chunked", body=body)
    with FakeServer(lambda _: Reply(raw=raw)) as server, pytest.raises(HttpError) as caught:
        fetch(
            "GET", server.url, deadline=Deadline(LATE), retry=ONCE, options=HttpOptions(attempt_seconds=LATE)
        )
    assert caught.value.problem == "the chunks of the response are too small"


def test_small_chunks_within_reason_are_read() -> None:
    """A server may write as it likes: a megabyte of framing is free, and beyond as much as there is content."""
    small, usual = b"1\r\nx\r\n" * 200_000, b"8;a=b\r\n01234567\r\n" * 200_000
    raw = answer(OK, "Transfer-Encoding: chunked", body=small + usual + b"0\r\n\r\n")
    with FakeServer(lambda _: Reply(raw=raw)) as server:
        reply = fetch("GET", server.url, deadline=Deadline(LATE), options=HttpOptions(attempt_seconds=LATE))
    assert len(reply.body) == 200_000 + 1_600_000


@contextmanager
def raw_server(serve: object) -> Iterator[int]:
    """A server of bytes for one connection."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                assert callable(serve)
                try:
                    serve(client, stop)
                except OSError:
                    return

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        stop.set()
        thread.join()


INJECTIONS = {
    "value-crlf": {"X": "a\r\nEvil: 1"},
    "value-lf": {"X": "a\nEvil: 1"},
    "value-cr": {"X": "a\rEvil: 1"},
    "value-nul": {"X": "a\0"},
    "value-surrogate": {"X": "a\udc0d\udc0aEvil: 1"},
    "name-crlf": {"X\r\nEvil": "1"},
    "name-colon": {"X: 1\tEvil": "1"},
    "name-blank": {"X Evil": "1"},
    "name-empty": {"": "1"},
}


@pytest.mark.parametrize("headers", INJECTIONS.values(), ids=INJECTIONS)
def test_a_header_stays_one_header(headers: dict[str, str]) -> None:
    """What would become a second header is never sent, and not quoted."""
    with serving(lambda _: Reply()) as server:
        with pytest.raises(HttpError) as caught:
            fetch(
                "GET", server.url, deadline=Deadline(LATE),
                headers={"Authorization": f"Bearer {SECRET}", **headers},
            )  # fmt: skip
        assert server.received == []
    assert "characters that HTTP does not allow" in str(caught.value)
    assert "Evil" not in str(caught.value)
    assert SECRET not in repr(caught.value)
    assert caught.value.__context__ is None


def test_letters_whose_codes_end_like_a_line_break_make_none() -> None:
    """U+010D and U+010A cut to one byte would be one; they are written as UTF-8."""
    with serving(lambda _: Reply()) as server:
        fetch("GET", server.url, deadline=Deadline(LATE), headers={"X": "a\u010d\u010aEvil: 1"})
    assert "evil" not in server.received[0].headers
    assert server.received[0].headers["x"].encode("latin-1").decode() == "a\u010d\u010aEvil: 1"


@pytest.mark.parametrize("method", ["GET /evil", "GET\r\nX", "", "G\u00c4T"])
def test_a_method_stays_a_method(method: str) -> None:
    """Nothing gets into the request line by way of it."""
    with serving(lambda _: Reply()) as server:
        with pytest.raises(HttpError):
            fetch(method, server.url, deadline=Deadline(LATE))
        assert server.received == []


URLS = [
    "http://127.0.0.1:@PORT/a b",
    "http://127.0.0.1:@PORT/a\r\nEvil: 1",
    "http://127.0.0.1:@PORT/\n",
    "http://127.0.0.1:@PORT/\t",
    "http://127.0.0.1:@PORT/\0",
    "http://127.0.0.1:@PORT/\x7f",
    " http://127.0.0.1:@PORT/",
    "ftp://127.0.0.1:@PORT/",
    "file:///etc/passwd",
    "//127.0.0.1:@PORT/",
    "127.0.0.1:@PORT",
    "",
    "http://",
    "http:///path",
    "http://:@PORT/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:65536/",
    "http://127.0.0.1:+80/",
    "http://127.0.0.1:8_0/",
    "http://127.0.0.1:\u0661/",
    "http://127.0.0.1:" + "1" * 5000 + "/",
    "http://\u212aelvin.example/",
    "http://[::1]x/",
]


@pytest.mark.parametrize("url", URLS, ids=repr)
def test_an_address_that_is_none_is_refused_before_a_connection(url: str) -> None:
    """No part of it gets where it does not belong, and a password in it is not quoted."""
    with serving(lambda _: Reply()) as server:
        given = url.replace("@PORT", str(server.port)).replace("://", f"://jo:{SECRET}@", 1)
        with pytest.raises(HttpError) as caught:
            fetch("GET", given, deadline=Deadline(LATE), retry=ONCE)
        assert server.received == []
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"http://jo:{SECRET}/x@proxy.example:80/",
        f"http://jo:{SECRET}?x@proxy.example:80/",
        f"http://jo:{SECRET}#x@proxy.example:80/",
        f"http://:{SECRET}/@proxy.example/",
    ],
)
def test_a_password_with_a_slash_in_it_is_not_quoted_as_a_port(url: str) -> None:
    """Such a URL has no meaning that its author knew of, and its password is where another has a port."""
    with pytest.raises(HttpError) as caught:
        split_url(url)
    assert SECRET not in str(caught.value)


def test_letters_beyond_ascii_in_a_path_are_escaped() -> None:
    """As every client does it; the server sees one request line."""
    with serving(lambda _: Reply()) as server:
        fetch("GET", f"{server.url}/\u00e4/\u010a?q=\u20ac", deadline=Deadline(LATE), retry=ONCE)
    assert server.received[0].target == "/%C3%A4/%C4%8A?q=%E2%82%AC"


def test_a_redirect_gets_no_request_and_no_credential() -> None:
    """A server that sends a client elsewhere only gets its own answer back."""
    with (
        serving(lambda _: Reply()) as elsewhere,
        serving(lambda _: Reply(307, headers={"Location": f"{elsewhere.url}/steal"})) as server,
    ):
        reply = fetch(
            "POST",
            server.url,
            deadline=Deadline(LATE),
            headers={"Authorization": f"Bearer {SECRET}"},
            body=b"x",
        )
    assert reply.status == 307
    assert elsewhere.received == []
    assert len(server.received) == 1


ENCRYPTED_BUNDLE = """
import sys
from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import ONCE, HttpOptions, fetch
try:
    fetch("GET", sys.argv[1], deadline=Deadline(20), retry=ONCE, options=HttpOptions(ca_data=sys.argv[2]))
except HttpError as error:
    print(error)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="a terminal becomes a session's own in another way elsewhere"
)
def test_a_bundle_that_says_it_is_encrypted_makes_nobody_ask_for_a_pass_phrase() -> None:
    """A plugin that kubectl runs has the user's terminal."""
    begin, _, rest = make_certificate(make_key()).partition("\n")
    bundle = f"{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,{'0' * 32}\n\n{rest}"
    with serving(lambda _: Reply()) as server:
        url = f"https://127.0.0.1:{server.port}/"
        status, shown = run_on_terminal(sys.executable, "-c", ENCRYPTED_BUNDLE, url, bundle)
    assert (status, PROMPT in shown) == (0, False)
    assert shown.strip() == "the given CA bundle: cannot be read as a bundle of certificates"
