"""Requests of plugins have an end: in time, whatever a server does or does not do, and in bytes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import ONCE, HttpOptions, Retry, fetch
from support.fake_cloud import PATIENCE_SECONDS, FakeServer, Reply, serving

QUICK = Retry(attempts=3, first_seconds=0.01, most_seconds=0.02)
# A limit that a test runs into on purpose, and one that it never reaches.
SOON, LATE = 0.3, 60.0


def test_no_attempt_is_made_that_the_deadline_leaves_no_time_for() -> None:
    """A wait that would end after the deadline is not begun."""
    started = time.monotonic()
    with serving(lambda _: Reply(503)) as server:
        reply = fetch(
            "GET",
            server.url,
            deadline=Deadline(5),
            retry=Retry(attempts=5, first_seconds=100, most_seconds=100),
        )
    assert reply.status == 503
    assert len(server.received) == 1
    assert time.monotonic() - started < PATIENCE_SECONDS


def test_a_deadline_that_has_passed_sends_nothing() -> None:
    """Not even a connection."""
    with serving(lambda _: Reply()) as server:
        with pytest.raises(HttpError) as caught:
            fetch("GET", server.url, deadline=Deadline(-1), retry=QUICK)
        assert caught.value.is_timeout
    assert server.received == []


@contextmanager
def dripping(*pieces: bytes, pause: float = 0.05) -> Iterator[int]:
    """A server that sends the last of *pieces* again and again, slowly; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()
        thread = threading.Thread(target=_drip, args=(listener, stop, pieces, pause), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _drip(listener: socket.socket, stop: threading.Event, pieces: tuple[bytes, ...], pause: float) -> None:
    while not stop.is_set():
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            try:
                client.recv(65536)
                for piece in pieces[:-1]:
                    client.sendall(piece)
                while not stop.wait(pause):
                    client.sendall(pieces[-1])
            except OSError:
                continue


DRIPS = {
    "silence": (b"",),
    "head-byte-by-byte": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "informational": (b"HTTP/1.1 100 Continue\r\n\r\n",),
    "body-byte-by-byte": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
    "body-without-length": (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    "chunk-by-chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
}


@pytest.mark.parametrize("pieces", DRIPS.values(), ids=DRIPS)
def test_a_slow_server_does_not_hold_a_plugin_beyond_its_limit(pieces: tuple[bytes, ...]) -> None:
    """However the bytes trickle, an attempt is over when its time is."""
    with dripping(*pieces) as port:
        started = time.monotonic()
        with pytest.raises(HttpError) as caught:
            fetch(
                "GET", f"http://127.0.0.1:{port}/", deadline=Deadline(LATE), retry=ONCE,
                options=HttpOptions(attempt_seconds=SOON),
            )  # fmt: skip
        assert SOON <= time.monotonic() - started < PATIENCE_SECONDS
    assert caught.value.is_timeout
    assert caught.value.problem == "no response in time"


def test_all_attempts_together_keep_the_deadline() -> None:
    """A server that never answers is tried again, and again, within one deadline."""
    with dripping(b"") as port:
        started = time.monotonic()
        with pytest.raises(HttpError):
            fetch(
                "GET",
                f"http://127.0.0.1:{port}/",
                deadline=Deadline(1),
                retry=Retry(attempts=100, first_seconds=0.01, most_seconds=0.01),
                options=HttpOptions(attempt_seconds=SOON),
            )
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
    with full() as port:
        started = time.monotonic()
        with pytest.raises(HttpError) as caught:
            fetch(
                "GET", f"http://127.0.0.1:{port}/", deadline=Deadline(LATE), retry=ONCE,
                options=HttpOptions(connect_seconds=SOON),
            )  # fmt: skip
        assert time.monotonic() - started < PATIENCE_SECONDS
    assert caught.value.is_timeout


def test_a_server_that_does_not_read_has_a_limit_too() -> None:
    """A large body that nobody takes is given up in time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        started = time.monotonic()
        with pytest.raises(HttpError) as caught:
            fetch(
                "POST", f"http://127.0.0.1:{listener.getsockname()[1]}/", deadline=Deadline(LATE), retry=ONCE,
                body=b"x" * 50_000_000, options=HttpOptions(attempt_seconds=SOON),
            )  # fmt: skip
        assert time.monotonic() - started < PATIENCE_SECONDS
    assert caught.value.is_timeout


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's resolver knows no limit; the request does, and the thread that asks holds nothing up."""
    asked = threading.Event()
    release = threading.Event()

    def look_up(*_: object, **__: object) -> list[object]:
        asked.set()
        release.wait(LATE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    started = time.monotonic()
    with pytest.raises(HttpError) as caught:
        fetch(
            "GET", "http://slow.example/", deadline=Deadline(LATE), retry=ONCE,
            options=HttpOptions(attempt_seconds=SOON),
        )  # fmt: skip
    release.set()
    assert asked.is_set()
    assert caught.value.is_timeout
    assert time.monotonic() - started < PATIENCE_SECONDS


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
    """An endless body ends after the limit, at once, and is not tried again."""
    with FakeServer(lambda _: Reply(is_endless=True)) as server:
        with pytest.raises(HttpError, match="the response is longer than 100000 bytes"):
            fetch(
                "GET",
                server.url,
                deadline=Deadline(LATE),
                retry=QUICK,
                options=HttpOptions(most_bytes=100_000),
            )
        assert len(server.received) == 1


@pytest.mark.parametrize("size", [99_999, 100_000])
def test_a_body_that_just_fits_is_read(size: int) -> None:
    """The limit itself is allowed."""
    with serving(lambda _: Reply(body=b"x" * size)) as server:
        reply = fetch("GET", server.url, deadline=Deadline(LATE), options=HttpOptions(most_bytes=100_000))
    assert len(reply.body) == size
