"""Proxies of plugins' requests, beyond what holds for all clients: attempts, and routes that take no proxy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import ONCE, HttpOptions, Retry, fetch
from support.fake_cloud import Reply, serving

LATE = 60.0
QUICK = Retry(attempts=2, first_seconds=0.01, most_seconds=0.02)
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


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        b"HTTP/1.1 407 Login\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\n",
    ],
    ids=["forbidden", "login", "redirect", "no-http", "silence", "cut"],
)
def test_a_proxy_that_refuses_is_asked_again(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies have bad moments; and nothing of a login or a query is said, however often."""
    with scripted(answer, answer) as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", f"http://jo:w0rd-secret@127.0.0.1:{port}/")
        url = f"https://{NAME}/x?sig=w0rd-secret"
        with pytest.raises(HttpError) as caught:
            fetch("GET", url, deadline=Deadline(LATE), retry=QUICK, options=HttpOptions())
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
