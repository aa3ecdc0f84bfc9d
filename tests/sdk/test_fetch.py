"""Requests of plugins against real servers: what is sent, what comes back, what is tried again and for how long."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate

import pytest

from keyferry import __version__
from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import ONCE, HttpOptions, Retry, fetch, is_safe_for_secrets
from keyferry.sdk.http import Reply as HttpReply
from support.fake_cloud import PATIENCE_SECONDS, FakeServer, Received, Reply, serving
from support.parts import lacking

QUICK = Retry(attempts=3, first_seconds=0.01, most_seconds=0.02)


# Limits that a test never reaches, and one that it runs into on purpose.
LATE = 60.0
SOON = 0.3


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


@pytest.mark.parametrize("status", [200, 204, 299, 300, 302, 308, 401, 404, 501])
def test_another_status_is_an_answer(status: int) -> None:
    """It is given at once; a redirect is never followed."""
    with serving(lambda _: Reply(status, headers={"Location": "http://127.0.0.1:1/"})) as server:
        reply = fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK)
    assert (reply.status, reply.is_success) == (status, status < 300)
    assert len(server.received) == 1


@pytest.mark.parametrize(("retry", "attempts"), [(QUICK, 3), (ONCE, 1)], ids=["quick", "once"])
def test_the_last_of_the_attempts_is_the_answer(retry: Retry, attempts: int) -> None:
    """After it a transient status is what there is; what must not be sent twice is sent once."""
    with serving(lambda _: Reply(503, {"error": "busy"})) as server:
        reply = fetch("GET", server.url, deadline=Deadline(LATE), retry=retry)
    assert (reply.status, reply.json()) == (503, {"error": "busy"})
    assert len(server.received) == attempts


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


@pytest.mark.parametrize("seconds", ["3600", "9" * 5000], ids=["an hour", "for ever"])
def test_a_retry_after_that_does_not_fit_ends_the_attempts(seconds: str) -> None:
    """Nobody waits for an hour; the answer says who is throttled."""
    with serving(lambda _: Reply(429, headers={"Retry-After": seconds})) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).status == 429
    assert len(server.received) == 1


def test_a_retry_after_with_a_date_is_obeyed() -> None:
    """A second after the server's own date, whatever this machine's clock says."""
    date, until = SENT[1], SENT[1].replace(":00 GMT", ":01 GMT")
    lines = f"Date: {date}\r\nRetry-After: {until}\r\nContent-Length: 0\r\n"
    raw = f"HTTP/1.1 503 x\r\n{lines}\r\n".encode()
    started = time.monotonic()
    with serving(script(Reply(raw=raw), Reply(200))) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK).status == 200
    assert time.monotonic() - started >= 1


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


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'"x"', b"\xff", b"[" * 100_000], ids=repr)
def test_a_body_that_is_no_json_object_is_an_error_that_quotes_nothing(body: bytes) -> None:
    """The status is in the message, the body is not."""
    with serving(lambda _: Reply(418, body=body)) as server:
        reply = fetch("GET", f"{server.url}/x?token=abc", deadline=Deadline(LATE))
    with pytest.raises(HttpError) as caught:
        reply.json()
    assert str(caught.value) == (f"{server.url}/x: returned status 418 with a body that is not a JSON object")
    assert caught.value.__context__ is None


def test_no_attempt_is_made_that_the_deadline_leaves_no_time_for() -> None:
    """A wait that would end after the deadline is not begun."""
    retry = Retry(attempts=5, first_seconds=1000, most_seconds=1000)
    with serving(lambda _: Reply(503)) as server:
        assert fetch("GET", server.url, deadline=Deadline(LATE), retry=retry).status == 503
    assert len(server.received) == 1


def test_a_deadline_that_has_passed_sends_nothing() -> None:
    """Not even a connection."""
    with serving(lambda _: Reply()) as server:
        with pytest.raises(HttpError) as caught:
            fetch("GET", server.url, deadline=Deadline(-1), retry=QUICK)
        assert caught.value.is_timeout
    assert server.received == []


def test_all_attempts_together_keep_the_deadline() -> None:
    """A server that never answers is tried again, and again, within one deadline."""
    retry = Retry(attempts=100, first_seconds=0.01, most_seconds=0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        started = time.monotonic()
        with pytest.raises(HttpError):
            fetch("GET", url, deadline=Deadline(0.7), retry=retry, options=HttpOptions(attempt_seconds=SOON))
        assert time.monotonic() - started < PATIENCE_SECONDS


@contextmanager
def full() -> Iterator[int]:
    """A port whose queue of connections is full: the next one gets neither an answer nor a refusal."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            waiting.append(client)
        time.sleep(0.05)
        yield port
        for client in waiting:
            client.close()


def test_a_connection_that_is_not_accepted_has_a_limit_of_its_own() -> None:
    """A packet filter that drops packets costs seconds, not the whole deadline."""
    options = HttpOptions(connect_seconds=SOON, attempt_seconds=LATE)
    with full() as port:
        started = time.monotonic()
        with pytest.raises(HttpError) as caught:
            fetch("GET", f"http://127.0.0.1:{port}/", deadline=Deadline(LATE), retry=ONCE, options=options)
        assert time.monotonic() - started < PATIENCE_SECONDS
    assert caught.value.is_timeout


def test_a_server_that_does_not_read_has_a_limit_too() -> None:
    """A large body that nobody takes is given up in time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        started = time.monotonic()
        with pytest.raises(HttpError) as caught:
            fetch(
                "POST", f"http://127.0.0.1:{listener.getsockname()[1]}/", deadline=Deadline(LATE), retry=ONCE,
                body=b"x" * 20_000_000, options=HttpOptions(attempt_seconds=SOON),
            )  # fmt: skip
        assert time.monotonic() - started < PATIENCE_SECONDS
    assert caught.value.is_timeout


def test_a_second_address_is_tried_if_the_first_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a dead address and a live one leads to the live one."""
    with full() as dead, serving(lambda _: Reply(body=b"ok")) as server:
        found = [
            (99, socket.SOCK_STREAM, 6, "", ("127.0.0.1", dead)),  # a family this system does not have
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", dead)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        reply = fetch(
            "GET",
            "http://two.example/",
            deadline=Deadline(LATE),
            retry=ONCE,
            options=HttpOptions(connect_seconds=2),
        )
    assert reply.body == b"ok"


def test_more_than_may_be_read_is_not_read() -> None:
    """An endless body ends after the limit, at once, and is not tried again; the limit itself is allowed."""
    options = HttpOptions(most_bytes=100_000)
    with FakeServer(lambda _: Reply(is_endless=True)) as server:
        with pytest.raises(HttpError, match="the response is longer than 100000 bytes"):
            fetch("GET", server.url, deadline=Deadline(LATE), retry=QUICK, options=options)
        assert len(server.received) == 1
    with serving(lambda _: Reply(body=b"x" * 100_000)) as server:
        assert len(fetch("GET", server.url, deadline=Deadline(LATE), options=options).body) == 100_000


TWICE = Retry(attempts=2, first_seconds=0.01, most_seconds=0.02)


NAME = "api.cloud.example"


@contextmanager
def scripted(*answers: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A proxy that answers whatever it is asked with one of *answers* after the other; and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    asked.append(client.recv(65536))
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], asked
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 403 Forbidden\r\n\r\n", b"SSH-2.0-OpenSSH\r\n\r\n", b""])
def test_a_proxy_that_refuses_is_asked_again(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies have bad moments; and nothing of a login or a query is said, however often."""
    with scripted(answer, answer) as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", f"http://jo:w0rd-secret@127.0.0.1:{port}/")
        url = f"https://{NAME}/x?sig=w0rd-secret"
        with pytest.raises(HttpError) as caught:
            fetch("GET", url, deadline=Deadline(LATE), retry=TWICE, options=HttpOptions())
        assert len(asked) == 2
    assert "w0rd" not in str(caught.value)


def test_a_route_can_leave_the_proxy_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata endpoints hand out credentials; no proxy is to see a request for one."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *more, **named: real("127.0.0.1", *more, **named))
    with serving(lambda _: Reply(body=b"ok")) as server:
        url = f"http://metadata.example:{server.port}/"
        options = HttpOptions(use_proxy=False)
        assert fetch("GET", url, deadline=Deadline(LATE), retry=ONCE, options=options).body == b"ok"
        with pytest.raises(HttpError, match="through the proxy"):
            fetch("GET", url, deadline=Deadline(LATE), retry=ONCE, options=HttpOptions())


def test_waits_double_up_to_a_limit_and_jitter_by_half() -> None:
    """Each between half of the full wait and all of it, and not always the same."""
    retry = Retry(attempts=9, first_seconds=1, most_seconds=5)
    for number, full in ((1, 1), (2, 2), (3, 4), (4, 5), (9, 5), (1000, 5)):
        waits = [retry.delay(number) for _ in range(200)]
        assert all(full / 2 <= wait < full for wait in waits)
        assert len(set(waits)) > 100
        assert max(waits) - min(waits) > full / 4


# The server's clock may be years from ours.
SENT = ("date", "Wed, 21 Oct 2099 07:28:00 GMT")
PAUSES: dict[str, tuple[str, int]] = {
    "seconds": ("30", 30),
    "blanks": (" 7 ", 7),
    "none": ("0", 0),
    "negative": ("-1", 0),
    "fraction": ("1.5", 0),
    "empty": ("", 0),
    "another digit": ("\u0661", 0),
    "nan": ("nan", 0),
    "word": ("soon", 0),
    "too many": ("9" * 5000, 999_999_999),
    "soon": ("Wed, 21 Oct 2099 07:28:30 GMT", 30),
    "now": ("Wed, 21 Oct 2099 07:28:00 GMT", 0),
    "past": ("Wed, 21 Oct 2099 07:27:59 GMT", 0),
    "later": ("Wed, 21 Oct 2099 08:28:00 GMT", 3600),
    "far": ("Fri, 31 Dec 9999 23:59:59 GMT", 999_999_999),
}


@pytest.mark.parametrize(("value", "seconds"), PAUSES.values(), ids=PAUSES)
def test_the_pause_that_a_reply_asks_for(value: str, seconds: int) -> None:
    """In whole seconds, within bounds; with none of these, our own wait is used."""
    reply = HttpReply(url="u", status=429, headers=(("retry-after", value), SENT), body=b"")
    assert (reply.retry_after_seconds, reply.sent_at) == (seconds, 4096250880)
    assert HttpReply(url="u", status=429, headers=(), body=b"").retry_after_seconds == 0


@pytest.mark.parametrize("date", [(), (("date", "today"),)])
def test_a_date_to_wait_for_counts_from_our_clock_if_the_server_tells_none(
    date: tuple[tuple[str, str], ...],
) -> None:
    """The pause is rounded up, so that it is never too short."""
    start = time.time()
    until = formatdate(start + 600, usegmt=True)
    reply = HttpReply(url="u", status=503, headers=(("retry-after", until), *date), body=b"")
    found = reply.retry_after_seconds
    passed = time.time() - start
    assert 599 - passed <= found <= 600
    assert reply.sent_at is None


def test_a_deadline_counts_down_and_is_never_extended() -> None:
    """A part of it ends with it."""
    deadline = Deadline(60)
    assert 0 < deadline.remaining() <= 60
    assert deadline.within(1000).seconds_left <= 60
    assert deadline.within(0.01).seconds_left <= 0.01
    over = Deadline(-1)
    assert over.seconds_left < 0
    assert over.within(5).seconds_left < 0
    with pytest.raises(TimeoutError):
        over.remaining()


SAFE = [
    "https://x.example/", "HTTPS://x.example", "https://127..1/", "http://localhost:1/x", "http://LOCALHOST",
    "http://127.8.9.1:80/", "http://[::1]:8/", "http://me:pw@localhost/",
]  # fmt: skip


UNSAFE = [
    "http://x.example/", "HTTP://x.example", "http://127..1/", "http://127.999.1.1/", "http://127.1/",
    "http://127.0.0.1.x.example/", "http://localhost.x.example/", "http://localhost@x.example/",
    "http://[::ffff:127.0.0.1]/", "http://x.example/?https://", "ftp://localhost/", "localhost", "//localhost", "",
    "https:/x.example", "https://", "https://x.example:99999/", "https://x y/", "https://x\r\ny/",
]  # fmt: skip


@pytest.mark.parametrize("url", SAFE)
def test_a_secret_goes_over_tls_or_stays_on_this_machine(url: str) -> None:
    assert is_safe_for_secrets(url)


@pytest.mark.parametrize("url", UNSAFE)
def test_a_secret_goes_nowhere_else(url: str) -> None:
    """Neither by plain HTTP to another machine, however it is written, nor to what is no URL."""
    assert not is_safe_for_secrets(url)
