"""One marked secret through the SDK: no message, repr, traceback or exception chain shows it."""

from __future__ import annotations

import os
import socket
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import keyferry
from keyferry._net.http_errors import split_url
from keyferry._net.proxy import Origin
from keyferry.errors import KeyferryError
from keyferry.sdk import (
    AuthConfig,
    Deadline,
    ExecRequest,
    ExecResponse,
    HttpError,
    ProvideError,
    Request,
    Response,
)
from keyferry.sdk.cluster import read_exec_request, respond_cluster
from keyferry.sdk.files import read_bounded, read_private, write_private
from keyferry.sdk.flags import Flag, parse_flags
from keyferry.sdk.http import ONCE, HttpOptions, Reply, fetch
from keyferry.sdk.image import respond
from keyferry.sdk.messages import shown
from keyferry.sdk.process import Finished, run_program
from keyferry.sdk.testing import Outcome
from support.errors import chain
from support.fake_cloud import FakeServer
from support.fake_cloud import Reply as Answer
from support.sdk_plugins import SECRET, exec_info, image_plugin, request_bytes, run_source

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJacTdtYXJrZWQifQ.Zq7marked-S3cret9vX_sig"
LATE = 60.0
OURS = os.path.dirname(keyferry.__file__) + os.sep

pytestmark = pytest.mark.usefixtures("plain_network")


def everything(error: BaseException) -> str:
    """What a program prints of an error, and what is in it and behind it."""
    texts = ["".join(traceback.format_exception(error))]
    for each in chain(error):
        texts += [str(each), repr(each), repr(each.args), repr(vars(each))]
    return "\n".join(texts)


VALUES = [
    Request(image="image", service_account_token=SECRET),
    Response(auth={"r": AuthConfig(username="user", password=SECRET)}),
    AuthConfig(username="user", password=SECRET),
    ExecResponse(token=SECRET, client_key_data=SECRET),
    Origin(scheme="http", host="host", port=80, target=f"/?{SECRET}", user_info=SECRET),
    split_url(f"http://jo:{SECRET}@host/?{SECRET}"),
    Reply(url="http://host/", status=200, headers=(("x", SECRET),), body=SECRET.encode()),
    Finished(status=0, stdout=SECRET.encode(), stderr=SECRET.encode()),
    Outcome(status=0, stdout=SECRET.encode(), stderr=SECRET),
    HttpOptions(),
    ExecRequest(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_no_value_shows_a_secret(value: object) -> None:
    """Neither its repr nor its text."""
    assert SECRET not in f"{value!r} {value!s}"


def closed_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def ask(url: str) -> None:
    """A request with the secret wherever one can be."""
    fetch(
        "POST", url, deadline=Deadline(LATE), retry=ONCE,
        headers={"Authorization": f"Bearer {SECRET}"}, body=SECRET.encode(),
    )  # fmt: skip


REPLIES = {
    "closed": Answer(is_closed=True),
    "garbage": Answer(raw=SECRET.encode() + b"\r\n\r\n"),
    "header": Answer(raw=f"HTTP/1.1 200 OK\r\n{SECRET}\r\n\r\n".encode()),
    "cut": Answer(raw=f"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{SECRET}".encode()),
    "chunk": Answer(raw=f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n".encode()),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_request_that_fails_keeps_its_secrets(reply: Answer) -> None:
    """Query, user info, headers, body and answer stay out of the error and of all that is behind it."""
    with FakeServer(lambda _: reply) as server, pytest.raises(HttpError) as caught:
        ask(f"http://jo:{SECRET}@127.0.0.1:{server.port}/path?token={SECRET}#{SECRET}")
    assert SECRET not in everything(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert f"http://127.0.0.1:{server.port}/path" in str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_that_fails_keeps_its_secrets(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also through a proxy whose URL has a password."""
    port = closed_port()
    with pytest.raises(HttpError) as caught:
        ask(f"{scheme}://jo:{SECRET}@127.0.0.1:{port}/?{SECRET}")
    assert SECRET not in everything(caught.value)
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://jo:{SECRET}@127.0.0.1:{port}")
    with pytest.raises(HttpError) as caught:
        ask(f"{scheme}://host.example/?{SECRET}")
    assert "through the proxy" in str(caught.value)
    assert SECRET not in everything(caught.value)


def locals_of_ours(error: BaseException) -> str:
    """What the frames of our own functions, on the way to an error and to all that are behind it, hold."""
    found = []
    for each in chain(error):
        frames = traceback.TracebackException.from_exception(each, capture_locals=True).stack
        found += [frame.locals for frame in frames if frame.filename.startswith(OURS)]
    assert found
    return repr(found)


FAILING = {
    "status line": Answer(raw=b"nonsense"),
    "cut": REPLIES["cut"],
}


@pytest.mark.parametrize("reply", FAILING.values(), ids=FAILING)
def test_no_frame_behind_a_failed_request_holds_its_secrets(reply: Answer) -> None:
    """What shows the locals of a traceback shows no header, body or query."""
    with FakeServer(lambda _: reply) as server, pytest.raises(HttpError) as caught:
        ask(f"http://jo:{SECRET}@127.0.0.1:{server.port}/path?token={SECRET}")
    assert SECRET not in locals_of_ours(caught.value)


def test_no_frame_behind_the_refusal_of_a_proxy_holds_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor the password of the proxy, which its request was made of."""
    with FakeServer(lambda _: Answer()) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://jo:{SECRET}@127.0.0.1:{server.port}")
        with pytest.raises(HttpError, match="the proxy refused a connection") as caught:
            ask(f"https://jo:{SECRET}@host.example/path?token={SECRET}")
    assert SECRET not in locals_of_ours(caught.value)


@pytest.mark.parametrize(
    ("url", "header"),
    [(f"https://host.example/?{SECRET}", "a\nb"), (f"ftp://{SECRET}", "x"), (f"https://{SECRET}@:x/", "x")],
    ids=["header", "scheme", "no host"],
)
def test_no_frame_behind_a_request_that_is_none_holds_its_secrets(url: str, header: str) -> None:
    """Also where nothing was sent."""
    with pytest.raises(HttpError) as caught:
        fetch("GET", url, deadline=Deadline(LATE), headers={"X": header, "Authorization": SECRET})
    assert SECRET not in locals_of_ours(caught.value)


PROXIES = [
    f"http://jo:{SECRET}/x@proxy.example:3128",
    f"http://{SECRET}/x@proxy.example:3128",
    f"http://jo:{SECRET}?@proxy.example",
    f"jo:{SECRET}#@proxy.example",
    f"socks5://jo:{SECRET}@proxy.example",
    f"http://jo:{SECRET} @proxy.example",
    f"http://jo:{SECRET}@",
]


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_that_is_no_url_is_named_by_its_variable_alone(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is in the message, with what to do; what it holds is not."""
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(HttpError) as caught:
        fetch("GET", "https://host.example/", deadline=Deadline(LATE))
    assert str(caught.value).startswith("the proxy in https_proxy: is not a URL of the form ")
    assert SECRET not in everything(caught.value)


def provide_nothing(_: Request) -> Response:
    """A function that is never reached."""
    raise AssertionError


def fail(_: ExecRequest) -> ExecResponse:
    """A function that is never reached."""
    raise AssertionError


DOCUMENTS = [
    b'{"serviceAccountToken": "' + SECRET.encode() + b'"',
    b"[" + b'"' + SECRET.encode() + b'"]',
    SECRET.encode(),
    request_bytes(serviceAccountToken=[SECRET]),
    request_bytes(kind={"x": SECRET}),
    request_bytes(serviceAccountAnnotations={"a": [SECRET]}),
]


@pytest.mark.parametrize("data", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_request_that_cannot_be_read_is_not_quoted(data: bytes) -> None:
    """Neither by the message nor by what is behind it."""
    with pytest.raises(ProvideError) as caught:
        respond(provide_nothing, data)
    assert SECRET not in everything(caught.value)
    for text in (data.decode(), f'{{"spec":{{"cluster":{{"proxy-url":["{SECRET}"]}}}}}}'):
        with pytest.raises(ProvideError) as caught:
            respond_cluster(fail, text)
        assert SECRET not in everything(caught.value)


def test_the_cluster_of_a_request_does_not_show_its_proxys_password() -> None:
    """What the client tells may hold one."""
    info = exec_info(
        cluster={"server": "https://c", "proxy-url": f"http://jo:{SECRET}@p", "config": {"t": SECRET}}
    )
    request = read_exec_request(info["KUBERNETES_EXEC_INFO"])
    assert request.cluster is not None
    assert request.cluster.proxy_url == f"http://jo:{SECRET}@p"
    assert SECRET not in repr(request)


def missing(path: Path) -> None:
    """Read a file that is not there."""
    read_bounded(str(path / "none"), "the token file")


def too_long(path: Path) -> None:
    """Read a file that is too long."""
    (path / "long").write_text(SECRET * 100)
    read_bounded(str(path / "long"), "the token file", 100)


def not_started(path: Path) -> None:
    """Run a file that is no program, with the secret as an argument and in its environment."""
    (path / "text").write_text("no program")
    run_program(
        [str(path / "text"), SECRET], deadline=Deadline(LATE), environ={"X": SECRET}, stdin=SECRET.encode()
    )


def not_ended(_: Path) -> None:
    """Run a program for longer than it may take."""
    run_program(["/bin/sh", "-c", "cat; sleep 60", SECRET], deadline=Deadline(0.2), stdin=SECRET.encode())


def wrong_flag(_: Path) -> None:
    """A flag that is unknown, with a value."""
    parse_flags([Flag(name="token")], [f"--tokn={SECRET}"])


@pytest.mark.parametrize(
    "work", [missing, too_long, not_started, not_ended, wrong_flag], ids=lambda w: w.__name__
)
def test_what_fails_in_a_plugin_keeps_its_secrets(work: Callable[[Path], None], tmp_path: Path) -> None:
    """Contents, arguments, environment, input and values stay out of the error."""
    with pytest.raises(KeyferryError) as caught:
        work(tmp_path)
    assert SECRET not in everything(caught.value).replace(f'"{SECRET}', "")


def test_files_with_secrets_are_the_users_alone(tmp_path: Path) -> None:
    """Whatever the umask is, for the file and for every folder made on the way."""
    path = tmp_path / "a" / "b" / "cache"
    before = os.umask(0)
    try:
        assert write_private(str(path), SECRET.encode())
    finally:
        os.umask(before)
    assert [item.stat().st_mode & 0o777 for item in (path, path.parent, path.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]
    assert read_private(str(path)) == SECRET.encode()
    assert [item.name for item in path.parent.iterdir()] == ["cache"]


def test_the_secret_is_in_no_argument_and_no_file_while_a_plugin_runs(tmp_path: Path) -> None:
    """The request comes by a pipe and the answer goes by one."""
    source = image_plugin(
        "print(open('/proc/self/cmdline').read(), open('/proc/self/environ').read())\n"
        "return Response.for_registry(request, 'u', request.service_account_token)"
    )
    ran = run_source(
        source,
        request_bytes(serviceAccountToken=SECRET),
        env={"HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert SECRET in ran.stdout.decode()
    assert SECRET not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_others_wrote_is_made_fit_for_a_message() -> None:
    """Known secrets, what looks like one, control characters, line breaks and length."""
    text = f"line one\n\x1b[31m {SECRET} Bearer abcdefgh {JWT} " + "word " * 100_000
    clean = shown(text, 80, (SECRET,))
    assert SECRET not in clean
    assert JWT not in clean
    assert "abcdefgh" not in clean
    assert clean.isprintable()
    assert len(clean) == 83
    # What is cut before it is looked at does not end within a secret.
    tail = shown("x" * 65_500 + " " + SECRET * 100, 10**6, (SECRET,))
    assert "Zq7" not in tail


def test_the_environment_of_a_program_is_what_it_is_given() -> None:
    """Nothing of the plugin's own environment gets to a program that is given another."""
    os.environ["KEYFERRY_TEST_SECRET"] = SECRET
    try:
        done = run_program(["/usr/bin/env"], deadline=Deadline(LATE), environ={"A": "b"})
    finally:
        del os.environ["KEYFERRY_TEST_SECRET"]
    assert done.stdout == b"A=b\n"
    assert (
        subprocess.run(["/usr/bin/env"], env={"A": "b"}, capture_output=True, check=True).stdout
        == done.stdout
    )
