"""Pulls by a container runtime."""

from __future__ import annotations

import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import grpc
import pytest

from keyferry import StoredImage, parse_image
from keyferry.errors import ContainerRuntimeError, EnvironmentProblem
from keyferry.pulls import cri
from keyferry.pulls.cri import (
    Runtime,
    RuntimeInfo,
    RuntimeTarget,
    connect_runtime,
    message,
)
from support.cri_server import Field, Message, RefusalError, decode, encode, image, running_cri
from support.fake_registry import PASSWORD, USER, credential


def test_threads_that_are_the_first_to_need_messages_get_ones_that_go_together() -> None:
    """A message of one kind fits into another, whoever made them."""
    gate = Barrier(8)

    def make(_: int) -> object:
        gate.wait(20)
        return message("PullImageRequest")(image=message("ImageSpec")(image="x")).image.image

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(10):
                message.cache_clear()
                cri._pool.cache_clear()
                assert set(pool.map(make, range(8))) == {"x"}
    finally:
        sys.setswitchinterval(interval)


IMAGE, REF = "reg.example/team/app:v1", "sha256:" + "a" * 64
PATIENCE_SECONDS = 60.0
UNKNOWN = grpc.StatusCode.UNKNOWN


def answering(*fields: Field) -> Callable[[Message], bytes]:
    return lambda _: encode(*fields)


def refusing(code: grpc.StatusCode, details: str = "") -> Callable[[Message], bytes]:
    def refuse(_: Message) -> bytes:
        raise RefusalError(code, details)

    return refuse


def error_of(
    call: Callable[[Runtime], object], **handlers: Callable[[Message], bytes]
) -> ContainerRuntimeError:
    """The error of a call to a runtime that answers so."""
    with (
        running_cri(**handlers) as server,
        Runtime(server.socket) as runtime,
        pytest.raises(ContainerRuntimeError) as caught,
    ):
        call(runtime)
    assert caught.value.socket == server.socket
    return caught.value


def pull(runtime: Runtime) -> str:
    return runtime.pull_image(IMAGE, credential())


def test_a_runtime_that_gives_no_reference_has_not_pulled() -> None:
    """There is nothing that a record could be kept under."""
    with running_cri(PullImage=answering()) as server:
        target = RuntimeTarget(Runtime(server.socket))
        assert target.place == f"unix://{server.socket}"
        with pytest.raises(ContainerRuntimeError, match='imageRef of image "a:1" is not set'):
            target.pull_image(parse_image("a:1"), None)
        target.close()


def test_a_runtime_says_what_it_is() -> None:
    """Name and versions."""
    version = answering((1, "0.1.0"), (2, "testd"), (3, "v9.8.7"), (4, "v1"))
    with running_cri(Version=version) as server, connect_runtime(server.address) as runtime:
        assert runtime.version() == RuntimeInfo(name="testd", version="v9.8.7", api_version="v1")
    assert server.received == [("/runtime.v1.RuntimeService/Version", {})]


def test_all_images_are_listed_with_all_their_names() -> None:
    """Nothing is filtered, and what a newer runtime adds is passed over."""
    first = image(REF, "a:1", "b:2", digests=["a@sha256:0"], size=1 << 40)
    second: Field = (1, [(1, "sha256:2"), (8, 1), (99, "new"), (5, [(1, 1000)])])
    with running_cri(ListImages=answering(first, second, (77, 5))) as server:
        found = Runtime(server.socket).list_images()
    assert found == (
        StoredImage(id=REF, tags=("a:1", "b:2"), digests=("a@sha256:0",), size=1 << 40),
        StoredImage(id="sha256:2", is_pinned=True),
    )
    assert server.received == [("/runtime.v1.ImageService/ListImages", {})]


def test_a_long_list_is_read_whole() -> None:
    """Runtimes with many images answer with more than gRPC's four megabytes, and with less than the kubelet's 16."""
    many = [image(f"sha256:{at}", "x" * 6000) for at in range(1000)]
    with running_cri(ListImages=answering(*many)) as server:
        assert len(Runtime(server.socket).list_images()) == 1000
    too_many = answering(*(many * 3))
    assert error_of(Runtime.list_images, ListImages=too_many).code == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([image(REF, IMAGE)], StoredImage(id=REF, tags=(IMAGE,), size=7)),
        ([], None),
        ([(1, [])], None),
        ([(1, [(2, IMAGE)])], None),
    ],
    ids=["there", "nothing", "empty", "without an id"],
)
def test_an_image_is_found_by_its_name(fields: list[Field], expected: StoredImage | None) -> None:
    """An answer without an image, or with one that has no id, is that there is none."""
    with running_cri(ImageStatus=answering(*fields)) as server, Runtime(server.socket) as runtime:
        assert runtime.find_image(IMAGE) == expected
    ((method, request),) = server.received
    assert method == "/runtime.v1.ImageService/ImageStatus"
    assert {number: list(map(decode, values)) for number, values in request.items()} == {
        1: [{1: [IMAGE.encode()]}]
    }


def test_a_pull_sends_the_name_and_the_credential_and_nothing_else() -> None:
    """User name and password as they are, and the deadline that it was given."""
    with running_cri(PullImage=answering((1, REF))) as server, Runtime(server.socket) as runtime:
        assert runtime.pull_image(IMAGE, credential(), timeout_seconds=50.0) == REF
    ((method, request),) = server.received
    assert method == "/runtime.v1.ImageService/PullImage"
    assert decode(request.pop(1)[0]) == {1: [IMAGE.encode()]}
    assert decode(request.pop(2)[0]) == {1: [USER.encode()], 2: [PASSWORD.encode()]}
    assert not request
    # On the wire it is rounded up; the default is 120.
    assert 0 < server.seconds_left[0] < 60.0


def test_an_anonymous_pull_sends_no_credential() -> None:
    """Not even an empty one."""
    with running_cri(PullImage=answering((1, REF))) as server:
        assert Runtime(server.socket, timeout_seconds=40.0).pull_image(IMAGE) == REF
    assert [[*request] for _, request in server.received] == [[1]]
    assert 0 < server.seconds_left[0] < 60.0


FAILURES = {
    "not found": (grpc.StatusCode.NOT_FOUND, "no such image", "not-found"),
    "unauthenticated": (grpc.StatusCode.UNAUTHENTICATED, "who are you", "refused"),
    "denied": (grpc.StatusCode.PERMISSION_DENIED, "", "refused"),
    "401": (UNKNOWN, "failed to pull: unexpected status: 401 Unauthorized", "refused"),
    "hidden": (UNKNOWN, "server message: insufficient_scope: authorization failed", "refused"),
    "CRI-O, refused": (
        UNKNOWN,
        "reading manifest v1 in H/a: unauthorized: authentication required",
        "refused",
    ),
    "rate limit": (UNKNOWN, "toomanyrequests: You have reached your pull rate limit", "throttled"),
    "missing words": (UNKNOWN, "rpc: reg.example/x: not found", "not-found"),
    "CRI-O, missing": (UNKNOWN, "reading manifest nope in H/a: manifest unknown", "not-found"),
    "network": (UNKNOWN, "dial tcp 10.0.0.1:443: connection refused", "unreachable"),
    "no such host": (
        UNKNOWN,
        "failed to do request: dial tcp: lookup r.io on x: no such host",
        "unreachable",
    ),
    "protocol": (UNKNOWN, "http: server gave HTTP response to HTTPS client", "unreachable"),
    "slow registry": (UNKNOWN, "dial tcp: i/o timeout", "timeout"),
    "503": (UNKNOWN, "pulling from host H failed with status code [manifests v1]: 503 Service", "error"),
    "something": (grpc.StatusCode.INTERNAL, "disk is full", "error"),
    "no words": (UNKNOWN, "", "error"),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES)
def test_what_a_runtime_says_is_told_with_what_it_means(case: tuple[grpc.StatusCode, str, str]) -> None:
    """Its code, its words, and the kind of failure."""
    code, said, kind = case
    error = error_of(pull, PullImage=refusing(code, said))
    assert (error.code, error.message, error.kind) == (code.name, said, kind)


def test_no_password_comes_back_in_an_error() -> None:
    """Not in its words, which are also harmless and not endless, and not in the frames that it came through."""
    said = f"cannot log in as {USER} with {PASSWORD} \x1b[2J{'x' * 5000}"
    error = error_of(pull, PullImage=refusing(UNKNOWN, said))
    assert "cannot log in as" in error.message
    assert "\x1b" not in error.message
    assert len(error.message) <= 2000
    assert error.__context__ is None
    shown = "".join(traceback.TracebackException.from_exception(error).format())
    assert PASSWORD not in shown + repr(error) + error.kubernetes_text


def test_what_speaks_another_interface_is_an_error() -> None:
    """With an answer that is no message, or the code that says that it knows no images."""
    assert error_of(Runtime.list_images, ListImages=lambda _: b"\xff\xff\xff").kind == "error"
    assert error_of(Runtime.list_images).code == "UNIMPLEMENTED"


def test_a_runtime_that_does_not_answer_is_given_up() -> None:
    """When the deadline is over, of the runtime in general or of one pull."""
    stop = threading.Event()

    def wait(_: Message) -> bytes:
        stop.wait(PATIENCE_SECONDS)
        return b""

    with running_cri(PullImage=wait, ListImages=wait) as server:
        try:
            runtime = Runtime(server.socket, timeout_seconds=0.3)
            with pytest.raises(ContainerRuntimeError) as listing:
                runtime.list_images()
            patient = Runtime(server.socket, timeout_seconds=PATIENCE_SECONDS)
            with pytest.raises(ContainerRuntimeError) as pulling:
                patient.pull_image(IMAGE, credential(), timeout_seconds=0.3)
        finally:
            stop.set()
    for caught in (listing, pulling):
        assert (caught.value.code, caught.value.kind) == ("DEADLINE_EXCEEDED", "timeout")
        assert caught.value.kubernetes_text.startswith("rpc error: code = DeadlineExceeded desc = ")


def test_a_runtime_that_goes_away_while_it_is_asked_is_unreachable() -> None:
    """And so is a socket that nobody listens at any more; the next runtime at the same place is found."""
    with running_cri(ListImages=answering(image(REF))) as server:
        runtime = Runtime(server.socket, timeout_seconds=PATIENCE_SECONDS)
        assert len(runtime.list_images()) == 1

    done = threading.Event()

    def vanish(_: Message) -> bytes:
        threading.Thread(target=going.stop).start()
        done.wait(PATIENCE_SECONDS)
        return b""

    with running_cri(PullImage=vanish) as going:
        try:
            with pytest.raises(ContainerRuntimeError) as caught:
                Runtime(going.socket, timeout_seconds=PATIENCE_SECONDS).pull_image(IMAGE, credential())
        finally:
            done.set()
    assert (caught.value.code, caught.value.kind) == ("UNAVAILABLE", "unreachable")
    with pytest.raises(ContainerRuntimeError) as gone:
        runtime.list_images()
    assert (gone.value.code, gone.value.kind) == ("UNAVAILABLE", "unreachable")


def test_a_socket_nobody_listens_at_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that crashed leaves its socket behind."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("cri.sock")
    with running_cri() as server:
        place = os.path.dirname(server.socket) + "/dead.sock"
        os.rename("cri.sock", place)
        with pytest.raises(ContainerRuntimeError) as caught:
            connect_runtime(place).list_images()
    assert caught.value.kind == "unreachable"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "unix:///no/such/socket",
            "socket '/no/such/socket' does not exist; is the container runtime running?",
        ),
        ("/no/such/socket", "socket '/no/such/socket' does not exist"),
        ("tcp://127.0.0.1:1234", "'tcp://127.0.0.1:1234' is not a unix socket"),
        ("http://runtime.example", "is not a unix socket"),
    ],
)
def test_an_address_that_leads_nowhere_is_told(address: str, said: str) -> None:
    """Before anything is sent."""
    with pytest.raises(EnvironmentProblem) as caught:
        connect_runtime(address)
    assert said in str(caught.value)


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket is a file on this machine, and a password goes through it."""
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with running_cri(PullImage=answering((1, REF))) as server:
        assert connect_runtime(server.socket).pull_image(IMAGE, credential()) == REF


def test_many_threads_share_a_runtime() -> None:
    """Each gets its own answer."""

    def echo(request: Message) -> bytes:
        return encode((1, decode(request[1][0])[1][0]))

    found: list[bool] = []
    with running_cri(PullImage=echo) as server, Runtime(server.socket) as runtime:

        def work(number: int) -> None:
            name = f"reg.example/app:{number}"
            found.append(runtime.pull_image(name, credential()) == name)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert found == [True] * 16
