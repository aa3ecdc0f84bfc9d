"""What holds for every request of ours, whoever sends it: the SDK's fetch, the registry client, ``keyferry kube raw``.

Each table runs over all three. Every name leads to this machine, and the environment's proxy decides the rest.
"""

from __future__ import annotations

import base64
import hashlib
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from keyferry._net.http_errors import split_url as split_registry_url
from keyferry.cli.main import main
from keyferry.clusters.tls import load_pair
from keyferry.errors import HttpError
from keyferry.pulls.registry.transport import RegistryRoute, Transport
from keyferry.sdk import Deadline
from keyferry.sdk.http import ONCE, HttpOptions, Thumbprint, fetch
from support.api_server import running_proxy
from support.certificates import Authority, Pair
from support.kube import Kube

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs on descriptors of its own")

NAME = "api.cluster.invalid"
ADDRESS = "10.9.8.7"
TOKEN = "s3cret-t0ken"
# A limit that a test runs into on purpose, one that it never reaches, and one for a busy machine.
SOON, LATE, PATIENCE_SECONDS = 0.2, 60, 60.0
MAX_BYTES = 100_000
OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"Content-Length: 2\r\n\r\nok"


@dataclass(frozen=True)
class Outcome:
    """What became of a request: the body of the answer, or why there is none."""

    body: bytes = b""
    words: str = ""
    is_timeout: bool = False


Ask = Callable[[str, float], Outcome]


def ask_by_sdk(url: str, seconds: float) -> Outcome:
    """As a plugin does."""
    options = HttpOptions(connect_seconds=seconds, attempt_seconds=seconds, most_bytes=MAX_BYTES)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        reply = fetch("GET", url, deadline=Deadline(LATE), headers=headers, retry=ONCE, options=options)
    except HttpError as error:
        return Outcome(words=str(error), is_timeout=error.is_timeout)
    return Outcome(reply.body)


def ask_by_registry_client(url: str, seconds: float) -> Outcome:
    """As for a manifest."""
    route = RegistryRoute(connect_seconds=seconds, answer_seconds=seconds, idle_seconds=seconds)
    transport = Transport(route, Deadline(LATE))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        with transport.request(split_registry_url(url), "GET", headers, admit=lambda _: None) as answer:
            return Outcome(answer.read(MAX_BYTES))
    except HttpError as error:
        return Outcome(words=str(error), is_timeout=error.is_timeout)
    finally:
        transport.close()


@pytest.fixture(params=["sdk", "registry", "kube"])
def ask(request: pytest.FixtureRequest, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Ask:
    """One of the three."""
    kube = Kube(tmp_path)

    def ask_by_kube(url: str, seconds: float) -> Outcome:
        server, slash, path = url.rpartition("/")
        kube.write(server, user={"token": TOKEN})
        words = ["kube", "raw", slash + path, "--kubeconfig", str(kube.path), "--timeout", str(seconds)]
        status = main(words)
        done = capfdbinary.readouterr()
        assert bool(status) is bool(done.err)
        return Outcome(b"" if status else done.out, done.err.decode(), status == 124)

    return {"sdk": ask_by_sdk, "registry": ask_by_registry_client, "kube": ask_by_kube}[request.param]


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Whom the system trusts in these tests."""
    return Authority()


@pytest.fixture(autouse=True)
def _network(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without proxies, in which every name and address is this machine."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    bundle = tmp_path / "system.pem"
    bundle.write_text(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERC", "")
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *more, **named: real("127.0.0.1", *more, **named))


class Server:
    """A server that says *raw* to whoever asks, and then ends the connection; before it, with *says_goodbye*, TLS.

    With a *drip* it goes on to send that, *drips* times; an empty one is silence. What it was told is in ``told``.
    """

    def __init__(
        self,
        raw: bytes = b"",
        pair: Pair | None = None,
        *,
        says_goodbye: bool = True,
        drip: bytes | None = None,
        drips: float = float("inf"),
    ) -> None:
        self.told: list[bytes] = []
        self._raw, self._drip, self._drips = raw, drip, drips
        self._says_goodbye = says_goodbye
        self._tls: ssl.SSLContext | None = None
        if pair is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            load_pair(self._tls, pair.certificate, pair.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(client,)))
                self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(PATIENCE_SECONDS)
        with client, suppress(OSError):
            stream = self._tls.wrap_socket(client, server_side=True) if self._tls else client
            with stream:
                self.told.append(stream.recv(65536))
                stream.sendall(self._raw)
                self._go_on(stream)
                if isinstance(stream, ssl.SSLSocket) and self._says_goodbye:
                    stream.unwrap()

    def _go_on(self, stream: socket.socket) -> None:
        sent = 0
        while self._drip is not None and sent < self._drips and not self._over.wait(0.05):
            stream.sendall(self._drip)
            sent += 1


@contextmanager
def nobody() -> Iterator[int]:
    """A port that nobody listens at, nor takes meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


WAYS = ("direct", "proxy", "tls proxy")
# Each client, and each way; the ways do not know who asks.
CLIENTS_AND_WAYS = [
    ("sdk", "direct"),
    ("registry", "proxy"),
    ("kube", "tls proxy"),
    ("sdk", "tls proxy"),
    ("kube", "direct"),
]


@contextmanager
def way(name: str, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let requests take one of the ways to a server by TLS."""
    if name == "direct":
        yield
        return
    pair = authority.server("127.0.0.1") if name == "tls proxy" else None
    with running_proxy(pair) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"{'https' if pair else 'http'}://{proxy.address}")
        yield
        assert [told.split()[0] for told in proxy.told] == ["CONNECT"]
        assert TOKEN not in proxy.told[0]


P = "http://{proxy}"
# Host, variables, and whether the proxy is asked; test_url.py has all of the rules.
CHOICES = {
    "none": (NAME, {}, False),
    "upper before lower": (NAME, {"HTTPS_PROXY": P, "https_proxy": "http://127.0.0.1:1"}, True),
    "of the other scheme, and what is not Go's": (NAME, {"HTTP_PROXY": P, "ALL_PROXY": P}, False),
    "this machine": ("localhost", {"HTTPS_PROXY": P}, False),
    "own port": (NAME, {"HTTPS_PROXY": P, "NO_PROXY": "x, " + NAME + ":{port}"}, False),
    "network": (ADDRESS, {"HTTPS_PROXY": P, "NO_PROXY": "10.0.0.0/8"}, False),
}


@pytest.mark.parametrize("case", CHOICES.values(), ids=CHOICES)
def test_the_proxy_is_chosen_by_gos_rules(
    ask: Ask, authority: Authority, monkeypatch: pytest.MonkeyPatch, case: tuple[str, dict[str, str], bool]
) -> None:
    host, variables, is_asked = case
    pair = authority.server(NAME, ADDRESS, "localhost", "127.0.0.1")
    with running_proxy() as proxy, Server(WHOLE, pair) as server:
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(proxy=proxy.address, port=server.port))
        assert ask(f"https://{host}:{server.port}/x", LATE) == Outcome(b"ok")
        told = [each.splitlines()[0] for each in proxy.told]
    assert told == ([f"CONNECT {host}:{server.port} HTTP/1.1"] if is_asked else [])


def test_loopback_never_goes_through_a_proxy_without_tls_either(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with Server(WHOLE) as server:
        for host in ("127.0.0.1", "localhost"):
            assert ask(f"http://{host}:{server.port}/x", LATE) == Outcome(b"ok")


# The login of a proxy as its URL has it, and as it is meant.
LOGINS = {
    "plain": ("jo:word@", b"jo:word"),
    "escaped": ("us%40er:p%3Aw%2F@", b"us@er:p:w/"),
    "none": ("", b""),
}


@pytest.mark.parametrize("case", LOGINS.values(), ids=LOGINS)
def test_the_login_of_a_proxy_goes_to_the_proxy_alone(
    ask: Ask, authority: Authority, monkeypatch: pytest.MonkeyPatch, case: tuple[str, bytes]
) -> None:
    """CONNECT carries it, the request inside does not; and the request's own secrets stay inside."""
    written, meant = case
    with running_proxy() as proxy, Server(WHOLE, authority.server(NAME)) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{written}{proxy.address}")
        place = f"{NAME}:{server.port}"
        assert ask(f"https://{place}/x", LATE) == Outcome(b"ok")
    assert proxy.told[0].startswith(f"CONNECT {place} HTTP/1.1\nHost: {place}")
    login = f"Proxy-Authorization: Basic {base64.b64encode(meant).decode()}"
    assert (login in proxy.told[0]) is bool(meant)
    assert TOKEN not in proxy.told[0]
    head = server.told[0].decode()
    assert head.startswith("GET /x HTTP/1.1\r\n")
    assert f"\r\nHost: {place}\r\n" in head
    assert f"\r\nAuthorization: Bearer {TOKEN}\r\n" in head
    assert "proxy-authorization" not in head.lower()


@pytest.mark.parametrize("case", LOGINS.values(), ids=LOGINS)
@pytest.mark.parametrize("is_tls", [False, True], ids=["http", "https"])
def test_plain_requests_go_to_the_proxy_whole(
    ask: Ask, authority: Authority, monkeypatch: pytest.MonkeyPatch, is_tls: bool, case: tuple[str, bytes]
) -> None:
    """With the whole URL, and the proxy's login beside it; also where TLS leads to the proxy itself."""
    written, meant = case
    with Server(WHOLE, authority.server("127.0.0.1") if is_tls else None) as proxy:
        scheme = "https" if is_tls else "http"
        monkeypatch.setenv("HTTP_PROXY", f"{scheme}://{written}127.0.0.1:{proxy.port}")
        assert ask(f"http://{NAME}:8080/a?b=c", LATE) == Outcome(b"ok")
    head = proxy.told[0].decode()
    assert head.startswith(f"GET http://{NAME}:8080/a?b=c HTTP/1.1\r\n")
    assert f"\r\nHost: {NAME}:8080\r\n" in head
    login = f"\r\nProxy-Authorization: Basic {base64.b64encode(meant).decode()}\r\n"
    assert (login in head) is bool(meant)


def test_a_proxy_that_is_not_there_is_named(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the server that cannot be reached."""
    with nobody() as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://jo:w0rd@127.0.0.1:{port}")
        words = ask(f"https://{NAME}/x", LATE).words
    assert f"cannot be reached: connection refused (through the proxy http://127.0.0.1:{port})" in words
    assert f"https://{NAME}" in words
    assert "w0rd" not in words


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
# The answer, whether TLS ends before the connection does, and whether that is a whole answer.
ENDS = {
    "length, goodbye": (WHOLE, True, True),
    "length, cut": (WHOLE, False, True),
    "short, goodbye": (OK + b"Content-Length: 3\r\n\r\nok", True, False),
    "short, cut": (OK + b"Content-Length: 3\r\n\r\nok", False, False),
    "chunks, cut": (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", False, True),
    "no last chunk, goodbye": (CHUNKED + b"2\r\nok\r\n", True, False),
    "no last chunk, cut": (CHUNKED + b"2\r\nok\r\n", False, False),
    "no length, goodbye": (OK + b"\r\nok", True, True),
    "no length, cut": (OK + b"\r\nok", False, False),
    "half a head, goodbye": (OK + b"X-A: b", True, False),
    "half a head, cut": (OK + b"X-A: b", False, False),
}


@pytest.mark.parametrize(("ask", "name"), CLIENTS_AND_WAYS, indirect=["ask"])
@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_half_an_answer_is_no_answer(
    ask: Ask, authority: Authority, monkeypatch: pytest.MonkeyPatch, name: str, case: tuple[bytes, bool, bool]
) -> None:
    raw, says_goodbye, is_whole = case
    with (
        Server(raw, authority.server(NAME), says_goodbye=says_goodbye) as server,
        way(name, authority, monkeypatch),
    ):
        outcome = ask(f"https://{NAME}:{server.port}/x", LATE)
        assert f"Bearer {TOKEN}".encode() in server.told[0]
    assert outcome.body == (b"ok" if is_whole else b"")
    assert ("was cut off" in outcome.words) is not is_whole
    assert not outcome.is_timeout


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
def test_a_thumbprint_is_compared_before_anything_is_sent(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, name: str, is_right: bool
) -> None:
    """It takes the place of authority and name, and a server with another certificate is told nothing."""
    pair = Authority().server("other.invalid")
    digest = hashlib.sha1(ssl.PEM_cert_to_DER_cert(pair.certificate), usedforsecurity=False).hexdigest()
    thumbprint = Thumbprint(digest=digest.upper() if is_right else "0" * 40, setting="SETTING")
    with Server(WHOLE, pair) as server, way(name, authority, monkeypatch):
        url = f"https://{NAME}:{server.port}/x"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        try:
            options = HttpOptions(thumbprint=thumbprint)
            reply = fetch("GET", url, deadline=Deadline(LATE), headers=headers, retry=ONCE, options=options)
            outcome = reply.body.decode()
        except HttpError as error:
            outcome = str(error)
    assert any(TOKEN.encode() in told for told in server.told) is is_right
    assert (
        outcome == "ok"
        if is_right
        else "its certificate does not have the thumbprint that SETTING sets" in outcome
    )


def test_a_thumbprint_is_not_the_proxys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is known of the server, a proxy must be vouched for before it gets its password."""
    with running_proxy(Authority().server("127.0.0.1")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"https://me:pass-word@{proxy.address}")
        options = HttpOptions(thumbprint=Thumbprint(digest="0" * 40, setting="SETTING"))
        with pytest.raises(HttpError, match="its certificate is not trusted"):
            fetch("GET", f"https://{NAME}/x", deadline=Deadline(LATE), retry=ONCE, options=options)
        assert proxy.told == []


@contextmanager
def full() -> Iterator[int]:
    """A port whose queue of connections is full: the next one gets neither an answer nor a refusal."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        time.sleep(0.05)
        yield listener.getsockname()[1]
        for client in waiting:
            client.close()


def check_timeout(ask: Ask, url: str, seconds: float = SOON) -> None:
    """Ask with little time, and be told that it was not enough, long before the deadline of all attempts."""
    began = time.monotonic()
    outcome = ask(url, seconds)
    assert seconds <= time.monotonic() - began < LATE
    assert outcome.is_timeout
    assert "no response in time" in outcome.words


def test_a_name_look_up_has_a_deadline(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        over.wait(LATE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    check_timeout(ask, f"https://{NAME}/x")
    over.set()


def test_a_connection_has_a_deadline(ask: Ask) -> None:
    with full() as port:
        check_timeout(ask, f"https://{NAME}:{port}/x")


# Scheme, and what the server says before it falls silent or goes on with the last of them.
SILENCES = {
    "handshake": ("https", b"", b""),
    "head": ("http", b"", b""),
    "half a head": ("http", OK + b"X-A: b", b""),
    "head, byte by byte": ("http", OK + b"X-A: b", b"b"),
    "informational heads": ("http", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": ("http", OK + b"Content-Length: 3\r\n\r\nok", b""),
    "body without a length": ("http", OK + b"\r\nok", b""),
    "chunk": ("http", CHUNKED + b"3\r\nok", b""),
}


@pytest.mark.parametrize("case", SILENCES.values(), ids=SILENCES)
def test_a_server_that_is_silent_or_slow_is_left_in_time(ask: Ask, case: tuple[str, bytes, bytes]) -> None:
    scheme, raw, drip = case
    with Server(raw, drip=drip) as server:
        check_timeout(ask, f"{scheme}://127.0.0.1:{server.port}/x")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_silent_is_left_in_time(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    with Server(drip=b"") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://127.0.0.1:{proxy.port}")
        check_timeout(ask, f"https://{NAME}/x")


def test_a_handshake_inside_a_proxys_tls_has_a_deadline(
    ask: Ask, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(drip=b"") as server, way("tls proxy", authority, monkeypatch):
        # Enough for a busy machine to come as far as the handshake.
        check_timeout(ask, f"https://{NAME}:{server.port}/x", 1)


# The beginning of an answer, and what comes again and again.
DRIPS = {
    "with a length": (OK + b"Content-Length: 100000\r\n\r\n", b"x"),
    "without a length": (OK + b"\r\n", b"x"),
    "chunks": (CHUNKED, b"1\r\nx\r\n"),
    "trailers": (CHUNKED + b"0\r\n", b"X: y\r\n"),
}


@pytest.mark.parametrize("ask", ["sdk", "registry"], indirect=True)
@pytest.mark.parametrize("case", DRIPS.values(), ids=DRIPS)
def test_a_body_that_is_read_whole_has_a_deadline(ask: Ask, case: tuple[bytes, bytes]) -> None:
    """However it trickles. What goes on to standard output has none, as long as something comes."""
    raw, drip = case
    with Server(raw, drip=drip) as server:
        check_timeout(ask, f"http://127.0.0.1:{server.port}/x")


@pytest.mark.parametrize("ask", ["sdk", "registry"], indirect=True)
def test_a_body_that_is_read_whole_has_a_limit(ask: Ask) -> None:
    """The limit itself is allowed."""
    for size in (MAX_BYTES, MAX_BYTES + 1):
        with Server(OK + b"\r\n" + b"x" * size) as server:
            outcome = ask(f"http://127.0.0.1:{server.port}/x", LATE)
        if size == MAX_BYTES:
            assert outcome.body == b"x" * size
        else:
            assert f"the response is longer than {MAX_BYTES} bytes" in outcome.words


@pytest.mark.parametrize("ask", ["kube"], indirect=True)
def test_a_body_that_trickles_is_passed_on(ask: Ask) -> None:
    """It may take longer than the limit for a silence, and have more bytes than are read into memory elsewhere."""
    many = b"x" * (MAX_BYTES + 1)
    # On a busy machine the server may fall silent for longer.
    for seconds in (1, 10):
        drips = 30 * seconds
        with Server(OK + b"\r\n" + many, drip=b"y", drips=drips) as server:
            outcome = ask(f"http://127.0.0.1:{server.port}/x", seconds)
        if not outcome.is_timeout:
            break
    assert outcome.body == many + b"y" * drips


def trickle(seconds: float, pace_bytes: int) -> None:
    """Read a body of which a byte comes now and then for longer than *seconds*, at a pace for each of them."""
    route = RegistryRoute(answer_seconds=seconds, pace_seconds=seconds, pace_bytes=pace_bytes)
    with Server(OK + b"\r\n", drip=b"x") as server:
        origin = split_registry_url(f"http://127.0.0.1:{server.port}/x")
        began = time.monotonic()
        with Transport(route, Deadline(LATE)).request(origin, "GET", {}, admit=lambda _: None) as answer:
            pieces = answer.pieces(is_timed=False)
            while time.monotonic() - began < 1.5 * seconds:
                assert set(next(pieces)) == {ord("x")}


def test_a_blob_has_a_pace_instead() -> None:
    """Of every while of waiting, so many bytes must come; then it may take any time."""
    with pytest.raises(HttpError) as caught:
        trickle(1, 1 << 15)
    assert caught.value.is_timeout
    try:
        trickle(1, 1)
    except HttpError:
        trickle(20, 1)  # on a busy machine the server may fall silent for longer


# Who signs the server's certificate and for which names, and what is said.
REFUSALS = {
    "not trusted": (lambda _: Authority().server(NAME), "its certificate is not trusted: "),
    "wrong name": (
        lambda known: known.server("other.invalid"),
        "its certificate is not trusted: Hostname mismatch",
    ),
    "wrong address": (
        lambda known: known.server("127.0.0.1"),
        "its certificate is not trusted: Hostname mismatch",
    ),
    "common name": (lambda known: known.server_called(NAME), "only its subject alternative names count"),
    "no TLS": (lambda _: None, "TLS failed: "),
}


@pytest.mark.parametrize(("ask", "name"), CLIENTS_AND_WAYS, indirect=["ask"])
@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_a_server_that_is_not_who_it_should_be_is_told_nothing(
    ask: Ask,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    case: tuple[Callable[[Authority], Pair | None], str],
) -> None:
    make, words = case
    with Server(WHOLE, make(authority)) as server, way(name, authority, monkeypatch):
        outcome = ask(f"https://{NAME}:{server.port}/x", LATE)
    assert not any(TOKEN.encode() in told for told in server.told)
    assert words in outcome.words
    assert not outcome.is_timeout


@pytest.mark.parametrize("names", [("other.invalid",), ()], ids=["wrong name", "not trusted"])
def test_a_proxy_that_is_not_who_it_should_be_is_told_nothing(
    ask: Ask, authority: Authority, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    pair = authority.server(*names) if names else Authority().server("127.0.0.1")
    with running_proxy(pair) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"https://me:pass-word@{proxy.address}")
        outcome = ask(f"https://{NAME}/x", LATE)
        assert proxy.told == []
    assert "its certificate is not trusted" in outcome.words
    assert f"https://{proxy.address}" in outcome.words
    assert "pass-word" not in outcome.words


# What a proxy says to CONNECT, and what is said of it.
PROXY_ANSWERS = {
    "forbidden": (b"HTTP/1.1 403 Forbidden\r\n\r\n", f"refused a connection to {NAME}:443 with status 403"),
    "login": (b"HTTP/1.1 407 Login\r\n\r\n", "the proxy requires a user name and a password"),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", "with status 302"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", "the response is not HTTP"),
    "nothing": (b"", "it closed the connection without a response"),
    "half a head": (OK, "the response was cut off"),
}


@pytest.mark.parametrize("case", PROXY_ANSWERS.values(), ids=PROXY_ANSWERS)
def test_a_proxy_that_refuses_is_named_without_its_password(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, case: tuple[bytes, str]
) -> None:
    raw, words = case
    with Server(raw) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:pass-word@127.0.0.1:{proxy.port}")
        outcome = ask(f"https://{NAME}/x", LATE)
        assert b"Proxy-Authorization: Basic bWU6cGFzcy13b3Jk" in proxy.told[0]
        assert TOKEN.encode() not in proxy.told[0]
    assert words in outcome.words
    assert f"http://127.0.0.1:{proxy.port}" in outcome.words
    assert "pass-word" not in outcome.words


@pytest.mark.parametrize(
    "value", ["http://me:pass-word@", "socks5://me:pass-word@p:1", "http://me:pass/word@p:1", "http://["]
)
def test_a_proxy_that_is_no_url_is_not_passed_over(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    outcome = ask(f"https://{NAME}/x", LATE)
    assert "the proxy in HTTPS_PROXY: is not a URL of the form http://" in outcome.words
    assert ("other kinds, such as socks5://, are not" in outcome.words) is value.startswith("socks5://")
    assert "pass" not in outcome.words.replace("PASSWORD", "").replace("password", "")


# What is no HTTP answer, and what is said of it; tests/attacks/test_sdk_http.py has all of the rules.
MALFORMED = {
    "not HTTP": (b"SSH-2.0-OpenSSH\r\n", "the response is not HTTP"),
    "endless head": (OK + b"X: " + b"x" * 70_000, "the head of the response is too long"),
    "length and chunks": (
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "a Content-Length beside it",
    ),
    "endless line": (CHUNKED + b"0" * 5_000, "a line of the response is too long"),
}


@pytest.mark.parametrize("case", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_answer_is_not_read(ask: Ask, case: tuple[bytes, str]) -> None:
    raw, words = case
    with Server(raw) as server:
        outcome = ask(f"http://127.0.0.1:{server.port}/x", LATE)
    assert words in outcome.words
    assert not outcome.is_timeout


def test_a_server_that_is_not_there_is_told_apart_from_a_name_that_is_none(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nobody() as port:
        assert "cannot be reached: connection refused" in ask(f"https://{NAME}:{port}/x", LATE).words

    def refuse(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert "cannot be reached: its name cannot be resolved" in ask(f"https://{NAME}/x", LATE).words
