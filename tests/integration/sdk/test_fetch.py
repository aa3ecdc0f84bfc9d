"""Requests of plugins against real servers: what is sent, what comes back, what is tried again and for how long."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from keyferry import __version__
from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import ONCE, HttpOptions, Retry, fetch
from support.fake_cloud import Received, Reply, serving
from support.parts import lacking

QUICK = Retry(attempts=3, first_seconds=0.01, most_seconds=0.02)
LATE = 60.0


def script(*replies: Reply) -> Callable[[Received], Reply]:
    """Answers, one after the other; the last one again and again."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_a_request_says_what_it_should_and_nothing_more() -> None:
    """Host, one connection, no compression, our name; path and query as given; the body with its length."""
    with serving(lambda _: Reply(201, {"a": 1}, headers={"X-One": "1", "x-one": "2"})) as server:
        reply = fetch(
            "POST", f"{server.url}/p%20q?x=1&y=%2F", deadline=Deadline(LATE),
            headers={"Content-Type": "text/plain", "X-Token": "t"}, body=b"hello",
        )  # fmt: skip
    (received,) = server.received
    assert (received.method, received.target, received.body) == ("POST", "/p%20q?x=1&y=%2F", b"hello")
    assert received.headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept-encoding": "identity",
        "user-agent": f"keyferry/{__version__}",
        "content-type": "text/plain",
        "x-token": "t",
        "connection": "close",
        "content-length": "5",
    }
    assert (reply.status, reply.is_success, reply.json()) == (201, True, {"a": 1})
    assert reply.values("x-one") == ["1", "2"]
    assert reply.url == f"{server.url}/p%20q"


@pytest.mark.parametrize(("method", "length"), [("GET", None), ("POST", "0"), ("PUT", "0"), ("DELETE", None)])
def test_a_length_is_given_where_a_server_expects_one(method: str, length: str | None) -> None:
    """An empty POST says so; a GET has no body to speak of."""
    with serving(lambda _: Reply()) as server:
        fetch(method, server.url, deadline=Deadline(LATE))
    assert server.received[0].headers.get("content-length") == length


def test_the_callers_headers_replace_ours_but_not_those_of_the_connection() -> None:
    """A signed Host is the caller's; a length that is not the body's would be another request in disguise."""
    headers = {
        "host": "signed.example",
        "User-Agent": "acme/1",
        "content-length": "1",
        "Transfer-Encoding": "chunked",
        "Connection": "keep-alive",
    }
    with serving(lambda _: Reply()) as server:
        fetch("POST", server.url, deadline=Deadline(LATE), headers=headers, body=b"hello")
    (received,) = server.received
    assert received.headers["host"] == "signed.example"
    assert received.headers["user-agent"] == "acme/1"
    assert received.headers["content-length"] == "5"
    assert received.headers["connection"] == "close"
    assert "transfer-encoding" not in received.headers
    assert received.body == b"hello"


def test_a_head_request_has_no_body() -> None:
    """A length without bytes is not waited for."""
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
    with serving(lambda _: Reply(raw=raw)) as server:
        assert fetch("HEAD", server.url, deadline=Deadline(LATE), retry=ONCE).body == b""


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_transient_status_is_tried_again(status: int) -> None:
    """What may pass passes."""
    with serving(script(Reply(status), Reply(status), Reply(200, body=b"ok"))) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).body == b"ok"
    assert len(server.received) == 3


@pytest.mark.parametrize("status", [200, 204, 301, 302, 307, 308, 400, 401, 403, 404, 501])
def test_another_status_is_an_answer(status: int) -> None:
    """It is given at once; a redirect is never followed."""
    with serving(lambda _: Reply(status, headers={"Location": "http://127.0.0.1:1/"})) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).status == status
    assert len(server.received) == 1


def test_the_last_of_several_attempts_is_the_answer() -> None:
    """After the last attempt a transient status is what there is."""
    with serving(lambda _: Reply(503, {"error": "busy"})) as server:
        reply = fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK)
    assert (reply.status, reply.json()) == (503, {"error": "busy"})
    assert len(server.received) == 3


def test_the_caller_says_what_is_transient() -> None:
    """A 404 of a service that is still starting, for one."""
    retry = Retry(
        attempts=4, first_seconds=0.01, most_seconds=0.01, is_transient=lambda reply: reply.status == 404
    )
    with serving(script(Reply(404), Reply(404), Reply(503))) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=retry).status == 503
    assert len(server.received) == 3


def test_a_connection_that_breaks_is_tried_again() -> None:
    """One that ends before an answer may have met a server that was just going."""
    with serving(script(Reply(is_closed=True), Reply(200, body=b"ok"))) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).body == b"ok"


def test_retry_after_is_obeyed() -> None:
    """A server that asks for a second gets it."""
    started = time.monotonic()
    with serving(script(Reply(429, headers={"Retry-After": "1"}), Reply(200))) as server:
        fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK)
    assert time.monotonic() - started >= 1
    assert len(server.received) == 2


@pytest.mark.parametrize("seconds", ["3600", "99999999999", "9" * 5000])
def test_a_retry_after_that_does_not_fit_ends_the_attempts(seconds: str) -> None:
    """Nobody waits for an hour; the answer says who is throttled."""
    with serving(lambda _: Reply(429, headers={"Retry-After": seconds})) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).status == 429
    assert len(server.received) == 1


def test_a_retry_after_with_a_date_is_obeyed() -> None:
    """A second after the server's own date, whatever this machine's clock says."""
    headers = {"Date": "Wed, 21 Oct 2099 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2099 07:28:01 GMT"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    raw = f"HTTP/1.1 503 x\r\n{lines}Content-Length: 0\r\n\r\n".encode()
    started = time.monotonic()
    with serving(script(Reply(raw=raw), Reply(200))) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).status == 200
    assert time.monotonic() - started >= 1
    far = raw.replace(b"Retry-After: Wed, 21 Oct 2099", b"Retry-After: Thu, 22 Oct 2099")
    with serving(lambda _: Reply(raw=far)) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).status == 503
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "value", ["Wed, 21 Oct 1999 07:28:00 GMT", "-5", "1.5", "", "\u0661", "nan", "tomorrow"]
)
def test_a_retry_after_that_is_no_pause_is_passed_over(value: str) -> None:
    """Our own wait is used."""
    raw = f"HTTP/1.1 503 x\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n".encode("latin-1", "replace")
    with serving(script(Reply(raw=raw), Reply(200))) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).status == 200


def test_a_closed_port_is_said_plainly() -> None:
    """Refused is refused, after all attempts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(HttpError) as caught:
        fetch("GET", f"http://127.0.0.1:{port}/a?b=c", deadline=Deadline(LATE), retry=QUICK)
    assert str(caught.value) == f"http://127.0.0.1:{port}/a: cannot be reached: connection refused"
    assert not caught.value.is_timeout


def test_a_name_that_is_none_cannot_be_resolved() -> None:
    """No packet leaves the machine for a name under .invalid that is too long to be one."""
    with pytest.raises(HttpError, match=r"cannot be resolved|not a host name"):
        fetch("GET", f"http://{'x' * 64}.invalid/", deadline=Deadline(LATE), retry=ONCE)


def test_an_address_is_dialled_in_place_of_the_hosts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name stays in the request, the connection goes elsewhere, and past any proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving(lambda _: Reply()) as server:
        fetch(
            "GET", f"http://name.example:{server.port}/", deadline=Deadline(LATE), retry=ONCE,
            options=HttpOptions(address="127.0.0.1"),
        )  # fmt: skip
    assert server.received[0].headers["host"] == f"name.example:{server.port}"


def test_ipv6_addresses_are_written_with_brackets() -> None:
    """In the URL and in the Host header."""
    heads: list[bytes] = []
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        lacking("ipv6")

    def serve_one() -> None:
        client, _ = listener.accept()
        with client:
            heads.append(client.recv(65536))
            client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with listener:
        thread = threading.Thread(target=serve_one)
        thread.start()
        port = listener.getsockname()[1]
        assert fetch("GET", f"http://[::1]:{port}/", deadline=Deadline(LATE), retry=ONCE).status == 204
        thread.join()
    assert f"\r\nHost: [::1]:{port}\r\n".encode() in heads[0]


def test_a_body_in_chunks_is_put_together() -> None:
    """Extensions and trailers are passed over, informational answers too."""
    raw = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n4;x=1\r\n{"a"\r\n3 \r\n:1}\r\n0\r\nX: y\r\n\r\n'
    )
    with serving(lambda _: Reply(raw=raw)) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=ONCE).json() == {"a": 1}


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'"x"', b"\xff", b"[" * 100_000], ids=repr)
def test_a_body_that_is_no_json_object_is_an_error_that_quotes_nothing(body: bytes) -> None:
    """The status is in the message, the body is not."""
    with serving(lambda _: Reply(418, body=body)) as server:
        reply = fetch("GET", f"{server.url}/x?token=abc", deadline=Deadline(LATE))
    with pytest.raises(HttpError) as caught:
        reply.json()
    assert str(caught.value) == (f"{server.url}/x: returned status 418 with a body that is not a JSON object")
    assert caught.value.__context__ is None
