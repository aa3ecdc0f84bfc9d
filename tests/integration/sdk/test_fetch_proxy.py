"""Proxies of plugins' requests: by the environment, with CONNECT for TLS, never for loopback, never in a message."""

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import ONCE, HttpOptions, Retry, fetch
from support.fake_cloud import Authority, ConnectProxy, Reply, serving

LATE = 60.0
QUICK = Retry(attempts=2, first_seconds=0.01, most_seconds=0.02)
NAME = "api.cloud.example"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that only these tests know."""
    return Authority(tmp_path_factory.mktemp("authority"))


def get(url: str, options: HttpOptions) -> bytes:
    """Fetch by one attempt."""
    return fetch("GET", url, deadline=Deadline(LATE), retry=ONCE, options=options).body


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


def test_tls_goes_through_connect(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy leads to the name; the certificate is checked against it, the proxy sees nothing."""
    options = HttpOptions(ca_file=str(authority.bundle))
    with (
        serving(lambda _: Reply(body=b"ok"), authority.context(NAME)) as server,
        ConnectProxy({NAME: server.port, "other.example": server.port}) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert get(f"https://{NAME}/path?q=1", options) == b"ok"
        assert proxy.asked == [f"{NAME}:443"]
        assert server.received[0].target == "/path?q=1"
        assert server.received[0].headers["host"] == NAME
        with pytest.raises(HttpError, match="Hostname mismatch"):
            get("https://other.example/", options)
        assert len(server.received) == 1


def test_plain_requests_go_to_the_proxy_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the whole URL, and the proxy's login beside it."""
    with scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as (port, asked):
        monkeypatch.setenv("http_proxy", f"us%40er:p%3Aw%2F@127.0.0.1:{port}")
        assert get(f"http://{NAME}:8080/a?b=c", HttpOptions()) == b"ok"
    head = asked[0].decode()
    login = base64.b64encode(b"us@er:p:w/").decode()
    assert head.startswith(f"GET http://{NAME}:8080/a?b=c HTTP/1.1\r\nHost: {NAME}:8080\r\n")
    assert f"\r\nProxy-Authorization: Basic {login}\r\n" in head


def test_the_login_of_a_proxy_goes_to_the_proxy_alone(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONNECT carries it, the request inside does not; and the request's own secrets stay inside."""
    with serving(lambda _: Reply(body=b"ok"), authority.context(NAME)) as server:
        heads: list[bytes] = []
        with _tunnel(server.port, heads) as port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://jo:word@127.0.0.1:{port}")
            fetch(
                "GET", f"https://{NAME}/", deadline=Deadline(LATE), retry=ONCE,
                headers={"Authorization": "Bearer inner"}, options=HttpOptions(ca_file=str(authority.bundle)),
            )  # fmt: skip
    (head,) = heads
    assert head.startswith(f"CONNECT {NAME}:443 HTTP/1.1\r\nHost: {NAME}:443\r\n".encode())
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"jo:word") in head
    assert b"inner" not in head
    assert "proxy-authorization" not in server.received[0].headers
    assert server.received[0].headers["authorization"] == "Bearer inner"


@contextmanager
def _tunnel(server_port: int, heads: list[bytes]) -> Iterator[int]:
    """A proxy for one connection that keeps the head it was sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client, socket.create_connection(("127.0.0.1", server_port)) as server:
                heads.append(client.recv(65536))
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


REFUSALS = {
    "forbidden": (b"HTTP/1.1 403 Forbidden\r\n\r\n", f"refused a way to {NAME}:443 with status 403"),
    "login": (b"HTTP/1.1 407 Login\r\n\r\n", "the proxy wants a user name and a password"),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", "with status 302"),
    "no-http": (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is not HTTP"),
    "silence": (b"", "it ended the connection without an answer"),
    "cut": (b"HTTP/1.1 200 OK\r\n", "the answer broke off"),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_a_proxy_that_refuses_is_named_without_its_password(
    case: tuple[bytes, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who refused, what, and nothing of the login; after another attempt, because proxies have bad moments."""
    answer, words = case
    with scripted(answer, answer) as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", f"http://jo:w0rd-secret@127.0.0.1:{port}/")
        with pytest.raises(HttpError) as caught:
            fetch(
                "GET",
                f"https://{NAME}/x?sig=w0rd-secret",
                deadline=Deadline(LATE),
                retry=QUICK,
                options=HttpOptions(),
            )
        assert len(asked) == 2
    assert words in str(caught.value)
    assert f"http://127.0.0.1:{port}" in str(caught.value)
    assert "w0rd" not in str(caught.value)


def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the server that cannot be reached."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://jo:w0rd@127.0.0.1:{port}")
    with pytest.raises(HttpError) as caught:
        get(f"https://{NAME}/", HttpOptions())
    assert str(caught.value) == (
        f"https://{NAME}/: cannot be reached: connection refused (through the proxy http://127.0.0.1:{port})"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_never_goes_through_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving(lambda _: Reply(body=b"ok")) as server:
        assert get(f"http://{host}:{server.port}/", HttpOptions()) == b"ok"


def test_a_route_can_leave_the_proxy_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata endpoints hand out credentials; no proxy is to see a request for one."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setattr(socket, "getaddrinfo", _only_loopback(socket.getaddrinfo))
    with serving(lambda _: Reply(body=b"ok")) as server:
        url = f"http://metadata.example:{server.port}/"
        assert get(url, HttpOptions(use_proxy=False)) == b"ok"
        with pytest.raises(HttpError, match="through the proxy"):
            get(url, HttpOptions())


def _only_loopback(real: object) -> object:
    def look_up(_: str, port: int, **more: int) -> object:
        assert callable(real)
        return real("127.0.0.1", port, **more)

    return look_up


def test_tls_to_the_proxy_itself(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain request goes to it whole; the tables of all clients have TLS inside its TLS."""
    with serving(lambda _: Reply(body=b"ok"), authority.context("127.0.0.1")) as server:
        monkeypatch.setenv("HTTP_PROXY", f"https://127.0.0.1:{server.port}")
        assert get(f"http://{NAME}/x", HttpOptions(ca_file=str(authority.bundle))) == b"ok"
        assert server.received[0].target == f"http://{NAME}/x"
